#include "report/style.h"

struct report_style report_style(bool colour)
{
    struct report_style plain = {"", "", "", "", "", ""};
    struct report_style coloured = {"\033[1m",  "\033[2m",  "\033[32m",
                                    "\033[31m", "\033[33m", "\033[0m"};

    return colour ? coloured : plain;
}
