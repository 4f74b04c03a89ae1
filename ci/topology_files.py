"""Draws topology files for NCCL as people have them: stubs that clouds ship, dumps, templates, files of
other programs, and broken ones. draw(seed) says with each what `weft paths` has to make of it."""

import random
from xml.sax.saxutils import quoteattr

INTEL = {"arch": "x86_64", "vendor": "GenuineIntel", "familyid": "6", "modelid": "85"}
SAPPHIRE = {**INTEL, "modelid": "143"}
AMD = {"arch": "x86_64", "vendor": "AuthenticAMD", "familyid": "23", "modelid": "49"}
GENOA = {**AMD, "familyid": "175", "modelid": "17"}
GRACE = {"arch": "arm64"}
SPEEDS = {8: ["8 GT/s", "8.0 GT/s PCIe"], 16: ["16 GT/s", "16.0 GT/s PCIe"],
          32: ["32 GT/s", "32.0 GT/s PCIe"], 64: ["64.0 GT/s PCIe"]}


class Element:
    def __init__(self, name, attributes=(), below=()):
        self.name, self.attributes, self.below = name, dict(attributes), list(below)

    def add(self, element, **attributes):
        self.below.append(Element(element, {key.rstrip("_"): str(value) for key, value in attributes.items()}))
        return self.below[-1]

    def text(self, remarks=None, indent=0):
        inside = "".join(f" {key}={quoteattr(value)}" for key, value in self.attributes.items())
        start = f"{'  ' * indent}<{self.name}{inside}"
        end = f"  <!-- {remarks.choice(['GPU', 'NIC 0', 'Switch begins', ''])} -->\n" if remarks else "\n"
        if not self.below:
            return f"{start}/>{end}"
        return (f"{start}>{end}" + "".join(below.text(remarks, indent + 1) for below in self.below)
                + f"{'  ' * indent}</{self.name}>\n")

    def each(self, name):
        if self.name == name:
            yield self
        for below in self.below:
            yield from below.each(name)


class File:
    """A file. `gpus` and `nets`: how many of each; pairs: bus ids of a GPU and a NIC below one switch.
    `refused`: a regular expression of what is said of a file that is not read."""

    def __init__(self, kind, root=None, **more):
        self.kind, self.root, self.text = kind, root, more.pop("text", None)
        self.gpus, self.nets, self.pairs = 0, 0, []
        self.refused, self.said = None, None
        for key, value in more.items():
            setattr(self, key, value)

    def write(self, path, rng):
        if self.text is None:
            licence = "<!--\nCopyright (c) 2023\nThe PCI IDs need to match the VM's.\n-->\n"
            head = rng.choice(["", "", licence, '<?xml version="1.0" encoding="UTF-8"?>\n'])
            self.text = head + self.root.text(rng if rng.random() < 0.2 else None)
        path.write_text(self.text)


def speed_of(rng, number):
    return rng.choice(SPEEDS[number])


# ---- stubs of clouds ----


def stub(rng):
    """Functions only: GPUs and NICs behind switches of the hypervisor's, or at the CPUs."""
    root = Element("system", {"version": "1"})
    rate = rng.choice([8, 16, 16, 32, 32, 64])
    cpu = rng.choice([INTEL, SAPPHIRE, AMD, GENOA, GRACE, {}])
    n_cpus, n_groups = rng.choice([1, 2, 4]), rng.choice([1, 2, 4])
    n_gpus, n_nics = rng.choice([(1, 1), (2, 1), (2, 2), (1, 4), (1, 0), (1, 2)])
    flat = rng.random() < 0.2
    gpu_class, nic_class = rng.choice(["0x030200", "0x030000"]), rng.choice(["0x020700", "0x020000"])
    width = rng.choice(["16", "16", "8"])
    made = File("stub", root, said="a stub without GPUs, completed by default")
    link = {"link_speed": speed_of(rng, rate), "link_width": width}
    # Domains of a virtual machine have no order: a GPU's number is that of its bus.
    gpu_ids, nic_ids = (rng.sample(range(1, 250), n_cpus * n_groups * n) for n in (n_gpus, n_nics))
    numas = list(range(n_cpus))
    if rng.random() < 0.3:
        rng.shuffle(numas)
    for c in numas:
        node = root.add("cpu", numaid=c, affinity=f"{rng.getrandbits(32):08x}", **cpu)
        for g in range(n_groups):
            ids = {"vendor": "0x0000", "device": "0x0000"} if rng.random() < 0.3 else {}
            at = node if flat else node.add("pci", busid=f"ffff:ff:{1 + c * n_groups + g:02x}.0",
                                            class_="0x060400", **link, **ids)
            group = [("gpu", gpu_ids.pop()) for _ in range(n_gpus)] + [
                ("nic", nic_ids.pop()) for _ in range(n_nics)]
            if rng.random() < 0.3:
                rng.shuffle(group)
            buses = {"gpu": [], "nic": []}
            for what, number in group:
                bus = f"{number:04x}:00:00.0" if what == "gpu" else f"{0x100 + number:04x}:00:00.0"
                buses[what].append(bus)
                at.add("pci", busid=bus, class_=gpu_class if what == "gpu" else nic_class, **link)
            made.pairs += [] if flat else [(a, b) for a in buses["gpu"] for b in buses["nic"]]
            made.gpus, made.nets = made.gpus + n_gpus, made.nets + n_nics
    return made


def bus_ids(rng):
    """A stub that has no more of its functions than where they are."""
    root = Element("system", {"version": "1"})
    n_cpus, n = rng.choice([1, 2]), rng.choice([1, 4])
    for c in range(n_cpus):
        node = root.add("cpu", numaid=c)
        for i in range(n):
            node.add("pci", busid=f"0000:00:{0x16 + c * n + i:02x}.0")
    return File("bus ids", root, gpus=n_cpus * n, said="functions without a class as GPUs")


def template(rng):
    """GPUs without a rank, which only a job can give them."""
    made = whole(rng, "template")
    for gpu in made.root.each("gpu"):
        for key in ["rank", *rng.sample(["sm", "gdr", "dev"], rng.randrange(3))]:
            del gpu.attributes[key]
    for pci in made.root.each("pci"):
        if pci.below and pci.below[0].name in ("gpu", "nic") and rng.random() < 0.3:
            for key in rng.sample(["class", "link_speed", "link_width"], 2):
                del pci.attributes[key]
    made.said = "a stub whose GPUs have no rank, completed by default"
    return made


# ---- dumps ----


def whole(rng, kind="dump"):
    """As NCCL_TOPO_DUMP_FILE writes it."""
    root = Element("system", {"version": "1"})
    rate, cpu = rng.choice([8, 16, 32]), rng.choice([INTEL, SAPPHIRE, AMD, GENOA, GRACE])
    n_cpus, n_groups, n_nics = rng.choice([1, 2]), rng.choice([1, 2, 4]), rng.choice([0, 1, 2, 4])
    n_ports = rng.choice([1, 1, 2])
    sm = {8: 70, 16: 80, 32: 90}[rate]
    switches = [f"0000:{0xc0 + i:02x}:00.0" for i in range(rng.choice([0, 0, 4]))]
    # Ranks of the second machine of a job begin where those of the first end.
    first = rng.choice([0, 0, n_cpus * n_groups, 24])
    made = File(kind, root)
    link = {"link_speed": speed_of(rng, rate), "link_width": 16}
    deep, two_levels = rng.random() < 0.4, rng.random() < 0.2
    ids = {"vendor": "0x1000", "device": "0xc030", "subsystem_vendor": "0x1000", "subsystem_device": "0x0072"}
    bus = iter(f"{1 + i // 200:04x}:{1 + i % 200:02x}:00.0" for i in range(1000))
    for c in range(n_cpus):
        attributes = {"host_hash": "0x56f1a2b3c4d5e6f7"} if rate == 32 else {}
        node = root.add("cpu", **attributes, numaid=c, affinity=f"{rng.getrandbits(32):08x}", **cpu)
        for _ in range(n_groups):
            at = node.add("pci", busid=next(bus), class_="0x060400", **(ids if two_levels else {}), **link)
            if deep:
                at = at.add("pci", busid=next(bus), class_="0x060400", **(ids if two_levels else {}), **link)
            own = next(bus)
            gpu = at.add("pci", busid=own, class_="0x030200", **link).add(
                "gpu", dev=made.gpus, sm=sm, rank=first + made.gpus, gdr=1)
            for switch in switches:
                gpu.add("nvlink", target=switch, count=4, tclass="0x068000")
            made.gpus += 1
            for _ in range(n_nics):
                nic = next(bus)
                card = at.add("pci", busid=nic, class_=rng.choice(["0x020000", "0x020700"]), **link).add("nic")
                for port in range(n_ports):
                    card.add("net", name=f"mlx5_{made.nets}", dev=made.nets, speed=200000, port=1 + port,
                             latency="0.000000", guid=f"{rng.getrandbits(60):#x}", maxconn=131072, gdr=1)
                    made.nets += 1
                made.pairs.append((own, nic))
    if rng.random() < 0.2:
        root.below[0].add("nic").add("net", name="eth0", dev=made.nets, speed=10000, port=0,
                                     latency="0.000000", guid="0x0", maxconn=65536, gdr=0)
        made.nets += 1
    return made


# ---- what is not read ----


def of_rccl(rng):
    made = whole(rng, "RCCL")
    if rng.random() < 0.5:
        made.root.attributes["version"] = "2"
        made.refused = "RCCL's topology .a system of version 2"
    else:
        made.refused = "RCCL's topology .GPUs with gcn or xgmi"
        for gpu in made.root.each("gpu"):
            gpu.attributes["gcn"] = "942"
            gpu.add("xgmi", target="0000:01:00.0", count=1, tclass="0x038000")
    return made


def of_hwloc(rng):
    """lstopo's; a machine of more processors than NCCL's parser takes elements."""
    root = Element("topology", {"version": "2.0"})
    machine = root.add("object", type="Machine", os_index=0, **{f"attribute{i}": i for i in range(20)})
    for i in range(rng.choice([4, 300])):
        machine.add("object", type="PU", os_index=i)
    doctype = rng.choice(['<!DOCTYPE topology SYSTEM "hwloc2.dtd">\n', '<!DOCTYPE topology SYSTEM "hwloc.dtd">\n', ""])
    return File("hwloc", text='<?xml version="1.0" encoding="UTF-8"?>\n' + doctype + root.text(),
                refused="hwloc's XML")


def of_a_simulator(rng):
    n = rng.randrange(2, 40)
    head = rng.choice([f"{2 * n} {n} {n} {n} {n} H100", f"{2 * n} {n} {n}"])
    links = [f"{i} {n + i} {rng.choice(['400Gbps', '2880Gbps'])} 0.0005ms 0" for i in range(n)]
    return File("simulator", text="\n".join([head, " ".join(map(str, range(n, 2 * n))), *links, ""]),
                refused="a topology of SimAI or ns-3")


def of_channels(_):
    return File("channels", text='<graphs version="1">\n  <graph id="0" pattern="4"/>\n</graphs>\n',
                refused="channels of NCCL")


def broken(rng):
    """A dump of which something is gone; the message has the place."""
    made = whole(rng, "broken")
    text = made.root.text()
    pci = rng.choice(list(made.root.each("pci")))
    gpu = next(made.root.each("gpu"))
    how = rng.choice(["cut", "cut", "busid", "numaid", "sm", "link", "rank", "arch", "version", "empty", "other"])
    if how == "cut":
        made.text = text[:rng.randrange(len(text) // 2, len(text) - len("</system>\n"))]
        made.refused = r":\d+:\d+: not XML"
    elif how == "version":
        made.root.attributes["version"] = "7"
        made.refused = ":1:1: expected a system of version 1"
    elif how == "empty":
        made.root.below, made.refused = [], "a system without a cpu"
    elif how == "other":
        made.text, made.refused = "topology:\n  nodes: {}\n", ":1:1: not XML"
    elif how == "rank":
        gpu.attributes["rank"] = rng.choice(["-1", "65536", "99999999"])
        made.refused = r":\d+:\d+: gpu: expected a rank from 0 to 65535"
    else:
        owner, key = {"busid": (pci, "busid"), "numaid": (made.root.below[0], "numaid"), "sm": (gpu, "sm"),
                      "link": (pci, "link_width"), "arch": (made.root.below[0], "arch")}[how]
        del owner.attributes[key]
        made.refused = rf":\d+:\d+: {owner.name}: '{key}' is missing"
    return made


KINDS = [stub] * 6 + [bus_ids, template, template, whole, whole, whole, of_rccl, of_hwloc, of_a_simulator,
                      of_channels, broken, broken]


def draw(seed, path):
    rng = random.Random(f"topology file {seed}")
    made = KINDS[seed % len(KINDS)](rng)
    if made.root is not None and made.text is None and made.refused is None and made.kind != "bus ids":
        strip = rng.random() < 0.1
        for pci in made.root.each("pci") if strip else ():  # what older releases left out
            pci.attributes.pop("vendor", None)
    if made.refused is not None and made.text is None:
        made.text = made.root.text()  # its messages have lines
    made.write(path, rng)
    return made
