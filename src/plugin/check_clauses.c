#include <string.h>

#include "plugin/check.h"

/* By id. A plugin that breaks clause X deliberately is ci/bad-plugins/X.c. */
static const struct plugin_clause clauses[] = {
    {"accept.blocks", "accept returns at once: success and no comm, until there is one",
     "the proxy's service thread serves all connections of a rank"},
    {"accept.result", "accept succeeds as long as its peer may still come",
     "recvProxyConnect calls it until there is a comm"},
    {"call.blocks", "regMr, isend, irecv, iflush, test and close end by themselves",
     "one progress thread moves all operations of a rank"},
    {"close.open-requests",
     "a comm may be closed with requests open, which are then gone", "ncclCommAbort"},
    {"close.result", "closeSend, closeRecv and closeListen succeed",
     "proxy connections are freed by them"},
    {"comm.again", "a communicator may be made again after the last one's end",
     "ncclCommDestroy, then ncclCommInitRank in the same processes"},
    {"comm.independent", "a receive that nothing comes for holds up no other comm",
     "collectives on several channels and communicators are under way together"},
    {"comm.threads", "a comm may be made on one thread and used on another",
     "made by the service thread, used by the progress thread"},
    {"connect.blocks", "connect returns at once: success and no comm, until there is one",
     "the service thread that calls it also has to accept"},
    {"connect.handle-size",
     "connect writes no more than 128 bytes to the handle's memory",
     "NCCL_NET_HANDLE_MAXSIZE"},
    {"connect.result", "connect succeeds as long as its peer may still accept",
     "sendProxyConnect calls it until there is a comm"},
    {"connect.reused-memory", "the memory of a handle may hold another handle later",
     "requests of the proxy are freed and allocated again"},
    {"devices.count", "devices finds at least one", "ncclNetPluginInit"},
    {"fd.leak", "what a communicator opened is closed after it",
     "jobs make and destroy communicators for weeks"},
    {"finalize.context", "finalize ends its own communicator only (v11)",
     "several communicators of a process, each with init and finalize"},
    {"flush.result", "iflush succeeds, with a request or with none", "recvProxyProgress"},
    {"handle.elsewhere", "a handle works from another process: no address in it",
     "it travels over the bootstrap network"},
    {"init.repeated", "init succeeds for every communicator",
     "ncclNetInit, for each communicator since 2.28"},
    {"irecv.not-now",
     "irecv that cannot be done now succeeds and sets the request to NULL",
     "recvProxyProgress tries again"},
    {"irecv.optional", "irecv replaces the mark of an optional completion by a request",
     "NCCL_NET_OPTIONAL_RECV_COMPLETION: LL and LL128"},
    {"irecv.overrun", "nothing is written beyond the posted size",
     "buffers of other steps lie there"},
    {"isend.not-now",
     "isend that cannot be done now succeeds and sets the request to NULL",
     "sendProxyProgress tries again"},
    {"listen.comm", "listen gives a comm at once", "recvProxySetup"},
    {"listen.early-close", "a connection lives on when its listener is closed",
     "recvProxyConnect closes it as soon as accept gave a comm"},
    {"listen.handle-size", "listen writes no more than 128 bytes",
     "NCCL_NET_HANDLE_MAXSIZE"},
    {"listen.several", "there may be many listeners at a time",
     "one for each channel and peer, before the first is connected"},
    {"load.open", "the object can be opened with RTLD_NOW and RTLD_LOCAL",
     "ncclNetPluginLoad"},
    {"load.symbol", "there is a table ncclNetPlugin_v8 to _v12",
     "ncclNetPluginLoad looks for the newest that it knows"},
    {"load.table", "the table has a name and every function that NCCL calls",
     "they are called without asking"},
    {"memory.result", "regMr of host memory succeeds", "sendProxyConnect"},
    {"message.data", "the bytes of a message are those that were sent", "all transports"},
    {"message.lost", "every message arrives as long as both ends call test",
     "collectives wait for it"},
    {"message.order", "messages of a comm arrive in the order of their receives",
     "steps of a channel have no number"},
    {"message.tags", "in a grouped receive a message goes to the buffer of its tag",
     "NCCL_NET_SHARED_COMMS: the tag is the sender's rank"},
    {"no.crash", "no call ends the process", "the job runs in it"},
    {"properties.device", "the device is of type host unless it is offloaded",
     "ncclNetDevice"},
    {"properties.guid", "devices with different ports have different guids",
     "equal guid and port count as one port, whose bandwidth is shared"},
    {"properties.limits", "0 < maxP2pBytes <= 2^40, 1 <= maxRecvs, 1 <= maxComms",
     "ncclNetGetProperties and proxy"},
    {"properties.name", "each device has a name of its own that stays",
     "names of several devices are kept and compared"},
    {"properties.pointers", "host memory can be registered", "NCCL_PTR_HOST"},
    {"properties.result", "getProperties succeeds for each device", "ncclTopoProcessNet"},
    {"properties.speed", "the speed is the port's, in Mb/s", "ncclTopoAddNet"},
    {"recv.early", "a receive is done when its data is there",
     "the GPU reads as soon as test said so"},
    {"recv.sizes", "test tells the bytes that came, not those that were posted",
     "recvProxyProgress"},
    {"recv.sizes-count", "test tells one size for each buffer of the group, not more",
     "sizes[NCCL_PROXY_MAX_SUBS]"},
    {"requests.recycled", "requests are free again once test said done",
     "millions on one comm"},
    {"send.early", "a send is done when its buffer may be written again",
     "the next step is written there"},
    {"send.sizes", "test tells the bytes of a send", "sendProxyProgress"},
    {"setup.ends", "both ends get their comm while both keep calling",
     "ncclTransportP2pSetup waits for all of a round"},
};

const struct plugin_clause *plugin_clause_at(unsigned index)
{
    return index < sizeof(clauses) / sizeof(clauses[0]) ? &clauses[index] : NULL;
}

const struct plugin_clause *plugin_clause_find(const char *id)
{
    for (unsigned i = 0; plugin_clause_at(i) != NULL; i++) {
        if (strcmp(clauses[i].id, id) == 0) {
            return &clauses[i];
        }
    }
    return NULL;
}
