#include "base/status.h"

const char *weft_status_name(weft_status status)
{
    switch (status) {
    case WEFT_OK:
        return "ok";
    case WEFT_AGAIN:
        return "again";
    case WEFT_ERR_INPUT:
        return "input";
    case WEFT_ERR_NOMEM:
        return "nomem";
    case WEFT_ERR_SYSTEM:
        return "system";
    case WEFT_ERR_COMPLETION:
        return "completion";
    case WEFT_ERR_PROTOCOL:
        return "protocol";
    case WEFT_ERR_AUTH:
        return "auth";
    case WEFT_ERR_TIMEOUT:
        return "timeout";
    case WEFT_ERR_CLOSED:
        return "closed";
    case WEFT_ERR_LIMIT:
        return "limit";
    case WEFT_ERR_ROUTE:
        return "route";
    case WEFT_ERR_UNSUPPORTED:
        return "unsupported";
    case WEFT_ERR_DATA:
        return "data";
    case WEFT_ERR_ENVIRONMENT:
        return "environment";
    }
    return "unknown";
}
