#include "scenario/names.h"

const char *const names_of_boots[SCENARIO_N_BOOTS] = {"auto", "rendezvous", "neighbours",
                                                      "static"};

const char *const names_of_payloads[SCENARIO_N_PAYLOADS] = {"moved", "timing"};
