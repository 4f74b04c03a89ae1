"""The environment of programs that are built with sanitizers.

ASan clears the shadow of large blocks by mapping it anew unless the threshold is raised; where page
faults are dear (guests) that was a third of the time of tests that open a simulated mesh per case.
A freed block of more than 256 KiB is unmapped once it leaves the quarantine, so that a late use
faults whatever the quarantine's size, and small blocks seldom fill 64 MiB of it.
"""

ENVIRONMENT = {
    "ASAN_OPTIONS": "detect_leaks=1:detect_stack_use_after_return=1:strict_string_checks=1"
                    ":clear_shadow_mmap_threshold=268435456:quarantine_size_mb=64",
    "TSAN_OPTIONS": "second_deadlock_stack=1",
    "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
}
