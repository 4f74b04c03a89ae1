"""Time stamps of programs in virtual time: rdtsc and rdtscp, and nothing that only looks like them.

What is asserted is the same where these instructions fault and where the guest's kernel replaces them.
"""

import random
import subprocess

import pytest

from guest_kernel import needs_guest
from test_lab import PAIR, exec_in, needs, needs_time_stamps

pytestmark = needs_guest

LOOK_NS = 20

READS = r"""
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
#include <x86intrin.h>

static void print_reads(const char *name)
{
    unsigned cpu = 1, other = 1;
    unsigned long long a = __rdtsc(), b = __rdtsc(), c = __rdtscp(&cpu), d = __rdtscp(&other), first, last;
    first = last = __rdtsc();
    for (int i = 0; i < 400; i++) last = __rdtsc();
    printf("%s %llu %llu %llu %u %u %llu\n", name, b - a, c - b, d - c, cpu, other, last - first);
    fflush(stdout);
}

int main(void)
{
    print_reads("parent");
    if (fork() == 0) {
        print_reads("child");
        return 0;
    }
    wait(NULL);
    printf("%llu\n", __rdtsc());
    return 0;
}
"""

# A file of code that becomes executable only after it was mapped: 64 nops, then each read in a function.
CODE = b"\x90" * 64 + bytes.fromhex("0f31 48c1e220 4809d0 c3") + b"\x90" * 53 + bytes.fromhex(
    "0f01f9 48c1e220 4809d0 c3") + b"\x90" * 4000
MAPS = r"""
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
int main(int argc, char **argv)
{
    int fd = open(argv[argc - 1], O_RDONLY);
    char *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    char *other = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
    mprotect(code, 4096, PROT_READ | PROT_EXEC);
    unsigned long (*rdtsc)(void) = (unsigned long (*)(void))(code + 64);
    unsigned long (*rdtscp)(void) = (unsigned long (*)(void))(code + 64 + 63);
    unsigned long a = rdtsc(), b = rdtsc(), c = rdtscp(), d = rdtscp();
    printf("%lu %lu %lu %02hhx %02hhx\n", b - a, c - b, d - c, other[65], other[64 + 63 + 2]);
    return 0;
}
"""

FAULTS = r"""
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <ucontext.h>
#include <x86intrin.h>
extern char clts[], swapgs[];
static void caught(int number, siginfo_t *info, void *context)
{
    greg_t *at = &((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
    printf("%d %d %d\n", number, *at == (greg_t)clts, *at == (greg_t)swapgs);
    (void)info;
    *at += *at == (greg_t)clts ? 2 : 3;
}
int main(void)
{
    struct sigaction action = {.sa_sigaction = caught, .sa_flags = SA_SIGINFO};
    unsigned long long before = __rdtsc();
    sigaction(SIGSEGV, &action, NULL);
    __asm__ volatile(".globl clts, swapgs\nclts: clts\nswapgs: swapgs" ::: "memory");
    printf("%d\n", __rdtsc() > before);
    return 0;
}
"""


def compiled(folder, source, *flags):
    needs("cc")
    (folder / "program.c").write_text(source)
    subprocess.run(["cc", "-O1", "-o", folder / "program", folder / "program.c", *flags], check=True,
                   capture_output=True, timeout=60)
    return folder / "program"


def printed(*command):
    """What the command prints, the same in two runs."""
    needs_time_stamps()
    one, other = (exec_in(PAIR, "titanic", "--", *command) for _ in range(2))
    assert one == other
    code, out, errors = one
    assert (code, errors) == (0, ""), out + errors
    return out.splitlines()


@pytest.mark.parametrize("flags", [(), ("-static",), ("-no-pie",)], ids=["pie", "static", "no-pie"])
def test_a_look_takes_20_ns_in_a_process_and_in_its_child(tmp_path, flags):
    lines = printed(compiled(tmp_path, READS, *flags))
    looks = f"{LOOK_NS} {LOOK_NS} {LOOK_NS} 0 0 {400 * LOOK_NS}"
    assert lines[:2] == [f"parent {looks}", f"child {looks}"] and int(lines[2]) > 0


def test_code_that_becomes_executable_later_is_answered_and_its_file_stays(tmp_path):
    (tmp_path / "code").write_bytes(CODE)
    lines = printed(compiled(tmp_path, MAPS), tmp_path / "code")
    assert lines == [f"{LOOK_NS} {LOOK_NS} {LOOK_NS} 31 f9"]
    assert (tmp_path / "code").read_bytes() == CODE


def test_instructions_that_a_program_has_itself_fault_as_ever(tmp_path):
    assert printed(compiled(tmp_path, FAULTS)) == ["11 1 0", "11 0 1", "1"]


# What libcrypto has among its instructions, and constants that are followed as a read would be.
TABLE = bytes.fromhex("60ba44ff42f74bdbabb767993f4b919c0f316661c112f4320a43ae2fe5ac88d376671e7d")
CONSTANTS = """
__attribute__((noinline)) static unsigned long constants(unsigned long x)
{
    unsigned long high = x, low;
    __asm__ volatile("mov $0x310f310f, %%eax\\nshl $32, %%rdx\\nor %%rdx, %%rax\\n"
                     "add $0x310f, %%rax\\nmov %%eax, %%ecx\\nxor $0xf9010f, %%rax\\nmov %%edx, %%esi"
                     : "=a"(low), "+d"(high) : : "rcx", "rsi", "cc");
    return low;
}
"""


@pytest.mark.parametrize("seed", range(2))
def test_data_among_instructions_stays_as_it_is(tmp_path, seed):
    chance = random.Random(seed)
    table = TABLE
    for _ in range(64):
        zeros_or_words = chance.choice([bytes(24), chance.randbytes(4) * 6])
        table += zeros_or_words + chance.choice([b"\x0f\x31", b"\x0f\x01\xf9"]) + zeros_or_words
    words = ", ".join(str(byte) for byte in table)
    source = f"""
#include <stdio.h>
__asm__(".text\\n.globl table\\ntable: .byte {words}\\n.balign 16");
extern const unsigned char table[];
{CONSTANTS}
int main(void)
{{
    for (int i = 0; i < {len(table)}; i++) printf("%02x", table[i]);
    printf("\\n%lx\\n", constants(5));
    return 0;
}}
"""
    low = ((5 << 32 | 0x310f310f) + 0x310f) ^ 0xf9010f
    assert printed(compiled(tmp_path, source)) == [table.hex(), f"{low:x}"]
