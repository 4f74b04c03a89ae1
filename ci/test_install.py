"""What operators install: make install and uninstall, the Debian packages, manual pages and
completions. Pages and completions are compared with what --help says, which is what the command
itself reads."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
WEFT = Path(os.environ.get("WEFT_FAST", str(ROOT / "build" / "weft"))).resolve()
SHELLS = ("bash", "zsh", "fish")


def output(*command, **kwargs):
    return subprocess.run([str(word) for word in command], cwd=ROOT, capture_output=True, text=True,
                          check=True, timeout=300, **kwargs).stdout


def help_of(verb):
    return output(WEFT, verb, "--help")


def flags_of(verb):
    """--flag: (takes a value, and only with =)"""
    return {match[1]: (bool(match[2]), match[2].startswith("[")) for match in
            re.finditer(r"^  (?:-\w, )?(--[a-z0-9-]+)(\[=\w+\]| (?! )\S+|) ", help_of(verb), re.M)}


VERBS = re.findall(r"^  ([a-z-]+) ", output(WEFT, "--help"), re.M)


@pytest.fixture(name="installed", scope="module")
def fixture_installed(tmp_path_factory):
    """A root with everything in it; `make` would find the build up to date."""
    root = tmp_path_factory.mktemp("root")
    env = {**os.environ, "BUILD": str(WEFT.parent), "DESTDIR": str(root), "PREFIX": "/usr"}
    before = output("git", "status", "--porcelain")
    output("ci/install", "install", env=env)
    assert output("git", "status", "--porcelain") == before
    return root, env


def files_below(root):
    return {str(path.relative_to(root)) for path in root.rglob("*") if not path.is_dir()}


def test_there_are_verbs():
    assert {"run", "show", "plugin", "plugin-check", "completion"} <= set(VERBS)


def test_each_file_is_where_it_should_be(installed):
    root, _ = installed
    assert {"usr/bin/weft", "usr/lib/weft/libweft-watch.so", "usr/lib/libnccl-net-mesh.so", "usr/lib/libweft.a",
            "usr/lib/pkgconfig/weft.pc", "usr/include/weft/base/text.h",
            "usr/share/man/man1/weft.1", "usr/share/man/man5/weft-scenario.5",
            "usr/share/man/man7/libnccl-net-mesh.7", "usr/share/doc/weft/README.md",
            "usr/share/doc/weft/docs/plugin.md", "usr/share/weft/scenarios/basic/pair.yaml",
            "usr/share/bash-completion/completions/weft", "usr/share/zsh/site-functions/_weft",
            "usr/share/fish/vendor_completions.d/weft.fish"} <= files_below(root)
    assert not [name for name in files_below(root) if Path(name).name == "libnccl-net.so"]
    assert os.access(root / "usr/bin/weft", os.X_OK)
    assert output(root / "usr/bin/weft", "--version") == output(WEFT, "--version")


@pytest.mark.heavy
def test_the_make_targets_do_just_that():
    commands = output("make", "-n", "install", f"BUILD={WEFT.parent}", "DESTDIR=/d", "PREFIX=/p")
    assert f"BUILD={WEFT.parent} DESTDIR=/d PREFIX=/p ci/install install" in commands
    assert "ci/install uninstall" in output("make", "-n", "uninstall", f"BUILD={WEFT.parent}")


def test_uninstall_takes_it_away_and_nothing_else(installed, tmp_path):
    root = tmp_path / "root"
    shutil.copytree(installed[0], root)
    (root / "usr/lib/of-another-package").write_text("here before\n")
    output("ci/install", "uninstall", env={**installed[1], "DESTDIR": str(root)})
    assert files_below(root) == {"usr/lib/of-another-package"}
    assert not (root / "usr/share/weft").exists() and not (root / "usr/include/weft").exists()
    assert (root / "usr/share/man/man1").is_dir()


@pytest.mark.skipif(shutil.which("pkg-config") is None,
                    reason="SKIP pkg-config: it is not here")
def test_a_program_builds_against_what_was_installed(installed, tmp_path):
    """By weft.pc alone, outside the tree."""
    root = installed[0]
    source = tmp_path / "use.c"
    source.write_text('#include <stdio.h>\n#include "base/text.h"\n#include "scenario/scenario.h"\n'
                      '#include "run/run.h"\nint main(void)\n{\n'
                      '    struct weft_text text = {0};\n    weft_text_add(&text, "%d", 42);\n'
                      '    return puts(text.bytes) < 0;\n}\n')
    pc = (root / "usr/lib/pkgconfig/weft.pc").read_text().replace("=/usr", f"={root}/usr")
    (tmp_path / "weft.pc").write_text(pc)
    flags = output("pkg-config", "--cflags", "--libs", "weft",
                   env={**os.environ, "PKG_CONFIG_PATH": str(tmp_path)}).split()
    build = (WEFT.parent / "flags").read_text()  # a library for coverage needs its runtime
    subprocess.run(["gcc", "-std=c11", *re.findall(r"--coverage|-fsanitize=\S+", build), "-o",
                    str(tmp_path / "use"), str(source), *flags],
                   cwd=tmp_path, check=True, timeout=300)
    assert output(tmp_path / "use") == "42\n"


# --- the manual ----------------------------------------------------------------------------


def page(root, verb):
    name = "weft.1" if verb is None else f"weft-{verb}.1"
    return (root / "usr/share/man/man1" / name).read_text()


@pytest.mark.parametrize("verb", VERBS)
def test_a_page_has_the_flags_of_its_command(installed, verb):
    text = page(installed[0], verb)
    options = text.split(".SH OPTIONS\n")[1].split("\n.SH ")[0].replace("\\-", "-")
    flags = re.findall(r"^\.TP\n\\fB(?:-\w, )?(--[a-z0-9-]+)", options, re.M)
    assert flags == list(flags_of(verb)) and "--help" in flags
    described = text.split(".SH DESCRIPTION\n")[1].split(".SH ")[0]
    assert len(described) > 20, "docs/cli.md has no row for it"
    said = help_of(verb).splitlines()[2]
    assert said in text.replace("\\-", "-")


def test_the_flags_of_run_in_the_documentation_are_those_that_it_has():
    section = (ROOT / "docs/cli.md").read_text().split("## Flags of `run`")[1].split("\n## ")[0]
    documented = {flag for row in re.findall(r"^\| (`.*?) \|", section, re.M)
                  for flag in re.findall(r"`(--[a-z-]+)", row)}
    assert documented == set(flags_of("run")) - {"--quiet", "--verbose", "--help"}


@pytest.mark.skipif(shutil.which("groff") is None, reason="SKIP groff: it is not here")
def test_pages_are_pages(installed):
    pages = sorted((installed[0] / "usr/share/man").rglob("*.[157]"))
    assert len(pages) == len(VERBS) + 3
    ran = subprocess.run(["groff", "-man", "-Kutf8", "-Tutf8", "-ww", *map(str, pages)], text=True,
                         capture_output=True, check=True, timeout=300)
    assert ran.stderr == ""
    shown = re.sub(r"\x1b\[[0-9;]*m", "", ran.stdout)
    assert "NCCL_MESH_BACKEND" in shown and "`" not in shown.split("WEFT-SCENARIO(5)")[0][:2000]


# --- completions ---------------------------------------------------------------------------


def bash_offers(root, line):
    script = ('source "$1"; COMP_LINE=$2 COMP_POINT=${#2}; _weft; '
              'printf "%s\\n" "${COMPREPLY[@]}"')
    return set(output("bash", "-c", script, "bash",
                      root / "usr/share/bash-completion/completions/weft", line).split())


def fish_offers(root, line):
    script = 'source $argv[1]; complete -C $argv[2]'
    printed = output("fish", "--no-config", "-c", script,
                     root / "usr/share/fish/vendor_completions.d/weft.fish", line,
                     env={**os.environ, "HOME": str(root)})
    return {entry.split("\t")[0] for entry in printed.splitlines()}


def zsh_arguments(root, line):
    """What the function hands to zsh's own _arguments and _describe."""
    script = ('_arguments() { print -rl -- "$@" }; _describe() { print -rl -- ${(P)2} }; '
              'autoload() { : }; source $1 2>/dev/null; words=(${=2}); CURRENT=$3; _weft')
    return output("zsh", "-f", "-c", script, "zsh", root / "usr/share/zsh/site-functions/_weft",
                  line, len(line.split()) + line.endswith(" ")).splitlines()


def needs(shell):
    return pytest.mark.skipif(shutil.which(shell) is None,
                              reason=f"SKIP completion {shell}: {shell} is not here")


@pytest.mark.parametrize("shell", [pytest.param(shell, marks=needs(shell)) for shell in SHELLS])
def test_completion_knows_every_verb_and_flag(installed, shell):
    root = installed[0]
    if shell == "zsh":
        assert [line.split(":")[0] for line in zsh_arguments(root, "weft ")] == VERBS
        for verb in VERBS:
            specs = "\n".join(zsh_arguments(root, f"weft {verb} -"))
            found = re.findall(r"^(?:\*|\(-\w --\w+\))?(--[a-z0-9-]+)(=-|=|)\[", specs, re.M)
            assert found == [(flag, ("=-" if optional else "=") if value else "")
                             for flag, (value, optional) in flags_of(verb).items()]
        return
    offers = bash_offers if shell == "bash" else fish_offers
    assert offers(root, "weft ") | {"--help", "--version"} == {*VERBS, "--help", "--version"}
    for verb in VERBS if shell == "bash" else ("run", "paths", "plugin-check", "cleanup"):
        assert {word.rstrip("=") for word in offers(root, f"weft {verb} --")} == set(flags_of(verb))


@needs("bash")
def test_completion_of_values_in_bash(installed):
    root = installed[0]
    assert bash_offers(root, "weft run --backend ") == {"sim", "soft", "rxe", "verbs"}
    assert bash_offers(root, "weft run --backend=so") == {"soft"}
    assert bash_offers(root, "weft explain route.wr") == {"route.wrong_nic"}
    assert bash_offers(root, "weft completion ") == set(SHELLS)
    assert "w1x10" in bash_offers(root, "weft bench sim:w1")  # readline's word begins after the :
    assert bash_offers(root, "weft run READ") == {"README.md"}
    assert "scenarios" in bash_offers(root, "weft list sc")
    assert bash_offers(root, "weft run --seed ") == set()
    assert bash_offers(root, "weft dance ") == set()


@needs("fish")
def test_completion_of_values_in_fish(installed):
    root = installed[0]
    assert fish_offers(root, "weft run --backend ") == {"sim", "soft", "rxe", "verbs"}
    assert fish_offers(root, "weft explain route.wr") == {"route.wrong_nic"}


def test_completion_of_an_unknown_shell_is_a_usage_error():
    ran = subprocess.run([str(WEFT), "completion", "tcsh"], capture_output=True, text=True,
                         check=False)
    assert (ran.returncode, ran.stdout) == (2, "") and "bash|zsh|fish" in ran.stderr


# --- packages ------------------------------------------------------------------------------


@pytest.fixture(name="packages", scope="module")
def fixture_packages(tmp_path_factory):
    """Both, unpacked into a fresh root; {name: file}."""
    if shutil.which("dpkg-shlibdeps") is None:
        pytest.skip("SKIP packages: dpkg-dev is not here")
    before = output("git", "status", "--porcelain")
    with pytest.MonkeyPatch.context() as patch:  # xz takes half of the time
        patch.setenv("DPKG_DEB_COMPRESSOR_TYPE", "gzip")
        patch.setenv("DPKG_DEB_COMPRESSOR_LEVEL", "1")
        made = output("ci/deb/build", "--build", WEFT.parent).split()
    assert output("git", "status", "--porcelain") == before, "build products in the tree"
    root = tmp_path_factory.mktemp("fresh")
    for file in made:
        output("dpkg", "-x", file, root)
    return root, {Path(file).name.split("_")[0]: file for file in made}


@pytest.mark.heavy("packages")
def test_the_packages_are_two_for_this_architecture(packages):
    root, files = packages
    machine = output("dpkg", "--print-architecture").strip()
    assert set(files) == {"weft", "libnccl-net-mesh"}
    for name, file in files.items():
        fields = output("dpkg-deb", "-f", file, "Package", "Architecture", "Version")
        assert fields.splitlines() == [
            f"Package: {name}", f"Architecture: {machine}",
            f"Version: {output(WEFT, '--version').split()[1]}"]
        assert (root / f"usr/share/doc/{name}/copyright").is_file()
    assert not list(root.rglob("libnccl-net.so"))


def test_a_fresh_root_runs_the_command_and_keeps_the_contract(packages):
    root = packages[0]
    assert output(root / "usr/bin/weft", "--version") == output(WEFT, "--version")
    plugin = next(root.rglob("libnccl-net-mesh.so"))
    triplet = output("dpkg-architecture", "-qDEB_HOST_MULTIARCH").strip()
    assert plugin.parent == root / "usr/lib" / triplet
    script = ("ip link add p0 type veth peer name p1 && ip addr add 192.168.7.1/24 dev p0 && "
              "ip link set p0 up && ip link set p1 up && ip link set lo up && exec \"$@\"")
    ran = subprocess.run(
        ["unshare", "--user", "--net", "--map-root-user", "sh", "-c", script, "sh",
         str(root / "usr/bin/weft"), "plugin-check", "-q", "--netversion", "11", str(plugin)],
        capture_output=True, text=True, check=False, timeout=300,
        env={**os.environ, "NCCL_MESH_BACKEND": "soft", "NCCL_MESH_DEVICES": "p0",
             "NCCL_MESH_MANAGEMENT": "p0"})
    if "unshare failed" in ran.stderr:
        pytest.skip("SKIP namespaces: this user may not make network namespaces")
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.heavy("packages")
def test_the_plugin_depends_on_the_c_library_only(packages):
    root, files = packages
    depends = output("dpkg-deb", "-f", files["libnccl-net-mesh"], "Depends").strip()
    assert re.fullmatch(r"libc6 \(>= [0-9.]+\)", depends)
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]",
                        output("readelf", "--dynamic", next(root.rglob("libnccl-net-mesh.so"))))
    assert set(needed) <= {"libc.so.6", "libm.so.6", "ld-linux-aarch64.so.1"}


def lintian_is_silent(files):
    """Neither errors nor warnings, nor an override that nothing needs."""
    if shutil.which("lintian") is None:
        return
    ran = subprocess.run(["lintian", "--allow-root", "--display-info", *files], capture_output=True,
                         text=True, check=False, timeout=300)
    said = [line for line in ran.stdout.splitlines() if line[0] in "EW" or "unused-override" in line]
    assert (ran.returncode, said) == (0, []), ran.stdout


def test_a_cross_compiler_that_is_missing_is_named(tmp_path):
    """Of an architecture that none exists for."""
    ran = subprocess.run(["ci/deb/build", "--build", str(WEFT.parent), "--arch", "m68k"], cwd=ROOT,
                         capture_output=True, text=True, check=False, timeout=300)
    if shutil.which("dpkg-shlibdeps") is not None:
        assert ran.returncode == 3
        assert "m68k-linux-gnu-strip is missing: ci/deps m68k" in ran.stderr


@pytest.mark.skipif(
    None in (shutil.which("aarch64-linux-gnu-gcc"), shutil.which("qemu-aarch64-static")) or
    not Path("/usr/lib/aarch64-linux-gnu/libyaml.so").exists(),
    reason="SKIP arm64 packages: no cross compiler here; enable with: ci/deps arm64")
def test_packages_for_arm64_run_there(tmp_path):
    """Built here, run in user-mode emulation, from the packages."""
    made = subprocess.run(["make", "-s", "deb", "ARCH=arm64", "BUILD=build"], cwd=ROOT,
                          capture_output=True, text=True, check=True, timeout=850).stdout.split()
    for file in (name for name in made if name.endswith(".deb")):
        assert output("dpkg-deb", "-f", file, "Architecture").strip() == "arm64"
        output("dpkg", "-x", file, tmp_path)
    lintian_is_silent([name for name in made if name.endswith(".deb")])
    weft = ["qemu-aarch64-static", tmp_path / "usr/bin/weft"]
    plugin = tmp_path / "usr/lib/aarch64-linux-gnu/libnccl-net-mesh.so"
    assert output(*weft, "--version") == output(WEFT, "--version")
    assert "keeps the contract" in output(
        *weft, "plugin-check", "--backend", "sim", "--netversion", "12", "--messages", "20",
        "--sequences", "3", plugin)


@pytest.mark.skipif(shutil.which("lintian") is None,
                    reason="SKIP lintian: it is not here; enable with: apt-get install lintian")
@pytest.mark.heavy("packages")
def test_lintian_has_nothing_to_say(packages):
    lintian_is_silent(packages[1].values())
