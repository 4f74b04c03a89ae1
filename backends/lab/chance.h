/* Randomness of the kernel, where all of it follows from a seed: in a guest in virtual time. */
#ifndef WEFT_BACKENDS_LAB_CHANCE_H
#define WEFT_BACKENDS_LAB_CHANCE_H

/* Consumer of the random numbers that follow. */
enum lab_chance {
    LAB_CHANCE_CABLES,
    LAB_CHANCE_PROGRAMS,
};

/* Starts the kernel's random numbers again, at a place that depends on the seed and `who` only, so
 * that what this process did before does not decide what `who` draws. Does nothing if the kernel
 * takes its randomness from elsewhere. */
void lab_chance_begin(enum lab_chance who);
/* Sleeps until the next whole second of the clock, if lab_chance_begin() does anything: the time
 * that this process took before does not matter then. */
void lab_chance_await_second(void);
/* Lets this thread, which observes programs, run at once whenever it is woken, and each program
 * then go on as if it had not (ci/guest/80-unnoticed.patch). Does nothing where lab_chance_begin()
 * does nothing. */
void lab_chance_run_unnoticed(void);

#endif
