"""The main of fuzz targets that are linked without libFuzzer: inputs that repeat, and failures found."""

import signal
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
TARGET = """
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static volatile int depth;

static int fall(const int *from)
{
    volatile int here = *from + 1;

    depth = here;
    return depth > 0 ? fall((const int *)&here) + here : 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size);

    if (size > 0) {
        memcpy(copy, data, size);
    }
    (void)!write(2, data, size);
    if (size >= 4 && memcmp(data, "boom", 4) == 0) {
        printf("%d\\n", copy[size]);
    }
    if (size >= 4 && memcmp(data, "past", 4) == 0) {
        printf("%d\\n", data[size]);
    }
    if (size >= 4 && memcmp(data, "loss", 4) == 0) {
        copy = NULL;
    }
    if (size >= 4 && memcmp(data, "trap", 4) == 0) {
        abort();
    }
    if (size >= 4 && memcmp(data, "null", 4) == 0) {
        *(volatile int *)(uintptr_t)8 = 1;
    }
    if (size >= 4 && memcmp(data, "deep", 4) == 0) {
        depth = fall((const int *)&depth);
    }
    if (size >= 4 && memcmp(data, "bus!", 4) == 0) {
        raise(SIGBUS);
    }
    if (size >= 4 && memcmp(data, "zero", 4) == 0) {
        raise(SIGFPE);
    }
    free(copy);
    return 0;
}
"""


def build(folder, *flags):
    (folder / "target.c").write_text(TARGET)
    sources = [ROOT / "src" / "base" / name for name in ("fuzz_main.c", "rng.c", "check.c")]
    subprocess.run(["gcc", "-std=c11", "-g1", "-D_POSIX_C_SOURCE=200809L", "-I", ROOT / "src",
                    *flags, "-o", folder / "target", folder / "target.c", *sources], check=True)
    return folder / "target"


@pytest.fixture(scope="module", name="target")
def _target(tmp_path_factory):
    return build(tmp_path_factory.mktemp("target"), "-fsanitize=address")


@pytest.fixture(scope="module", name="plain")
def _plain(tmp_path_factory):
    return build(tmp_path_factory.mktemp("plain"))


def run(target, *arguments):
    return subprocess.run([target, *arguments], capture_output=True, check=False,
                          env={"ASAN_OPTIONS": "detect_leaks=1", "PATH": "/usr/bin:/bin"})


def test_the_same_seed_makes_the_same_inputs(target, tmp_path):
    (tmp_path / "a").write_bytes(b"one seed\0of bytes")
    (tmp_path / "b").write_bytes(b"")
    (tmp_path / "words").write_text('# words\n"\\x01\\x02"\nname="a\\"\\\\b"\n')
    said = [run(target, "-n", "300", "-s", seed, "-d", tmp_path / "words", tmp_path / "a",
                tmp_path / "b") for seed in ("1", "1", "2")]
    assert [done.returncode for done in said] == [0] * 3, said[0].stderr
    assert said[0].stdout == b"302 inputs\n"
    assert said[0].stderr == said[1].stderr != said[2].stderr
    assert said[0].stderr.startswith(b"one seed\0of bytes")
    for word in (b"\x01\x02", b'a"\\b', b"one seed"):
        assert word in said[0].stderr[20:]


def keeps(target, tmp_path, word):
    (tmp_path / "words").write_text(f'"{word}"\n')
    done = run(target, "-n", "100000", "-d", tmp_path / "words", "-o", tmp_path / "failed")
    assert done.returncode != 0
    failed = (tmp_path / "failed").read_bytes()
    assert failed.startswith(word.encode())
    assert b"the input that failed is in " in done.stderr
    assert run(target, tmp_path / "failed").returncode == done.returncode
    return done


@pytest.mark.parametrize("word", ["boom", "past", "trap", "null", "deep", "bus!", "zero"])
def test_an_input_that_fails_is_kept(target, tmp_path, word):
    done = keeps(target, tmp_path, word)
    assert (b"AddressSanitizer" in done.stderr) == (word != "trap")


@pytest.mark.parametrize("word,number", [("trap", signal.SIGABRT), ("null", signal.SIGSEGV),
                                         ("deep", signal.SIGSEGV), ("bus!", signal.SIGBUS),
                                         ("zero", signal.SIGFPE)])
def test_an_input_that_fails_is_kept_without_sanitizers(plain, tmp_path, word, number):
    assert keeps(plain, tmp_path, word).returncode == -number


def test_a_leak_fails(target, tmp_path):
    (tmp_path / "a").write_bytes(b"loss of memory")
    done = run(target, tmp_path / "a")
    assert done.returncode != 0 and b"LeakSanitizer" in done.stderr


def test_what_cannot_be_read_is_no_success(target, tmp_path):
    assert run(target, tmp_path / "nothing").returncode == 2
    assert run(target, "-q").returncode == 2
    (tmp_path / "long").write_bytes(b"x" * 65537)
    assert run(target, tmp_path / "long").returncode == 2
