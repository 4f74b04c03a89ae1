/* Cannot receive. */
#define BAD_PLUGIN
#include "../good-plugins/reference.c"

SPOIL(net)
{
    net->irecv = NULL;
}
