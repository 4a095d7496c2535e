/* connection.c - the byte stream under every session
 *
 * What is hard here is that a callback may do anything: write, pause, start TLS, close, abort. So
 * callbacks only set state, and one function, connection_run(), looks at the state and acts; it
 * runs on events and, for calls from outside callbacks of this connection, at the end of the
 * reactor's turn (ph_reactor_touch).
 *
 *   CONNECTING --> (PROXY) --> (HANDSHAKE) --> OPEN --> FLUSHING --> LINGERING --> DEAD
 *                                 ^             |
 *                                 +--STARTTLS---+
 *
 * FLUSHING sends what is pending; LINGERING reads and drops for a moment what the peer still sends,
 * because closing a socket with unread bytes resets the connection and takes our last reply with
 * it.
 */
#include "runtime/connection.h"

#include "posthouse/log.h"
#include "runtime/proxy-protocol.h"
#include "runtime/task-core.h"
#include "runtime/tls-handshake.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/sendfile.h>
#include <sys/uio.h>
#include <unistd.h>

typedef enum State {
    STATE_CONNECTING,
    STATE_PROXY,
    STATE_HANDSHAKE,
    STATE_OPEN,
    STATE_STARTTLS, /* sends the plain "go ahead", then handshakes */
    STATE_FLUSHING,
    STATE_LINGERING,
    STATE_DEAD,
} State;

enum {
    INPUT_LIMIT_BYTES = 16 * 1024,
    CHUNK_BYTES = 4096,
    FIRST_CHUNK_BYTES = 1024, /* an answer that is all there is to send is often small */
    GATHER_CHUNKS = 16,
    TLS_RECORD_BYTES = 16 * 1024,
    ROUNDS_PER_RUN = 16, /* reads before others get their turn */
    HANDSHAKE_TIMEOUT_MS = 30 * 1000,
    WRITE_STALL_MS = 120 * 1000,    /* the peer takes nothing for so long */
    FILE_WINDOW_BYTES = 256 * 1024, /* of a file, looked at and sent at once */
    PROBE_BYTES = 16 * 1024,
    FILE_SLICE_BYTES = 64 * 1024, /* of a file, read into memory at once */
    WARM_US = 1000 * 1000,        /* what was in memory is believed to stay there for so long */
    BYTES_PER_RUN = 2 * 1024 * 1024,
    FLUSH_TIMEOUT_MS = 10 * 1000,
    LINGER_MS = 2 * 1000,
};

typedef struct Chunk Chunk;
struct Chunk {
    Chunk *next;
    size_t size; /* of data[]; 0 with `bytes` or `file` */
    size_t start;
    size_t end;
    GBytes *bytes;
    PhFile *file; /* start and end are places in it */
    uint8_t data[];
};

struct PhFile {
    PhRef ref;
    int fd;
    /* A range that was found in memory not long ago: it is not asked for page by page again. Wrong
     * values cost a wait for the disk, no more, so several threads may write them. */
    size_t warm_start;
    size_t warm_end;
    int64_t warm_until_us;
};

/* A slice that is being read in a job, because it was not in memory. */
typedef struct FileRead {
    PhFile *file;
    PhConnection *connection;
    Chunk *chunk;
    size_t offset;
    int error;
} FileRead;

struct PhConnection {
    PhSource source; /* first: events name it */
    PhTouch touch;
    PhConnectionLink link;
    PhReactor *reactor;
    PhSession *session;
    const PhSessionClass *session_class;
    const PhServiceRow *service;
    PhOwner *owner;
    State state;
    PhCloseReason reason;

    bool readable;
    bool writable;
    bool hung_up; /* the peer has sent its last byte, or the connection broke */
    bool paused;
    bool input_again; /* unconsumed bytes may be shown again */
    bool running;
    bool opened;
    bool peer_ended;
    bool is_last; /* the peer has said that it sends nothing more */
    bool was_full;
    bool tls_at_once; /* outgoing */
    bool secured;     /* STARTTLS is done, the session is to be told */

    uint8_t *input; /* owned, or the reactor's scratch while `input_is_scratch` */
    size_t input_start;
    size_t input_end;
    size_t input_size;
    size_t input_limit;
    bool input_is_scratch;

    Chunk *output;
    Chunk *output_last;
    size_t output_pending;
    int64_t stall_timeout_ms;
    PhTask file_task; /* made for the first read */
    bool reading_file;

    SSL *ssl;
    PhTimer session_timer;
    PhTimer life_timer; /* handshake, stalled output, linger */
    struct sockaddr_storage peer;
    struct sockaddr_storage local;
    char peer_text[INET6_ADDRSTRLEN];
    char local_text[INET6_ADDRSTRLEN];
    char *server_name; /* outgoing: to verify */
    char *ca;          /* outgoing: PEM; null: the system's */
    char *activity;
    int64_t account_id; /* 0: nobody has logged in */
    char *login;
    int64_t since_us;
    int64_t bytes_in;
    int64_t bytes_out;
};

static int connections; /* of this process */
static int clients;     /* those of them that are not apart and not outgoing */

static PH_ON_REACTOR void connection_run(PhConnection *connection);
static void break_off(PhConnection *connection, PhCloseReason reason);
static PH_ON_REACTOR void destroy(PhConnection *connection);

int
ph_connection_count(void)
{
    return __atomic_load_n(&connections, __ATOMIC_ACQUIRE);
}

int
ph_connection_client_count(void)
{
    return __atomic_load_n(&clients, __ATOMIC_ACQUIRE);
}

static void
count(const PhConnection *connection, int n)
{
    __atomic_fetch_add(&connections, n, __ATOMIC_ACQ_REL);
    if (connection->service != NULL && !connection->service->apart)
        __atomic_fetch_add(&clients, n, __ATOMIC_ACQ_REL);
}

/* -- addresses --------------------------------------------------------------------------------- */

static const void *
mapped_ipv4(const struct sockaddr_storage *address)
{
    const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)address;
    if (address->ss_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&in6->sin6_addr))
        return in6->sin6_addr.s6_addr + 12;
    return NULL;
}

static void
address_text(const struct sockaddr_storage *address, char *text, size_t size)
{
    const void *ipv4 = mapped_ipv4(address);
    if (ipv4 != NULL)
        inet_ntop(AF_INET, ipv4, text, (socklen_t)size);
    else if (address->ss_family == AF_INET)
        inet_ntop(AF_INET, &((const struct sockaddr_in *)address)->sin_addr, text, (socklen_t)size);
    else if (address->ss_family == AF_INET6)
        inet_ntop(
            AF_INET6, &((const struct sockaddr_in6 *)address)->sin6_addr, text, (socklen_t)size);
    else
        g_strlcpy(text, "local", size);
}

static int
address_port(const struct sockaddr_storage *address)
{
    if (address->ss_family == AF_INET)
        return ntohs(((const struct sockaddr_in *)address)->sin_port);
    if (address->ss_family == AF_INET6)
        return ntohs(((const struct sockaddr_in6 *)address)->sin6_port);
    return 0;
}

const char *
ph_connection_peer_address(PhConnection *connection)
{
    if (connection->peer_text[0] == '\0')
        address_text(&connection->peer, connection->peer_text, sizeof(connection->peer_text));
    return connection->peer_text;
}

/* Asked for when somebody wants to know: most do not. */
static const struct sockaddr_storage *
local_of(PhConnection *connection)
{
    socklen_t size = sizeof(connection->local);
    if (connection->local.ss_family == AF_UNSPEC && connection->source.fd >= 0)
        getsockname(connection->source.fd, (struct sockaddr *)&connection->local, &size);
    return &connection->local;
}

const char *
ph_connection_local_address(PhConnection *connection)
{
    if (connection->local_text[0] == '\0')
        address_text(local_of(connection), connection->local_text, sizeof(connection->local_text));
    return connection->local_text;
}

int
ph_connection_peer_port(const PhConnection *connection)
{
    return address_port(&connection->peer);
}

int
ph_connection_local_port(PhConnection *connection)
{
    return address_port(local_of(connection));
}

bool
ph_connection_peer_is_loopback(const PhConnection *connection)
{
    const struct sockaddr_storage *peer = &connection->peer;
    const uint8_t *ipv4 = mapped_ipv4(peer);
    if (ipv4 != NULL)
        return ipv4[0] == 127;
    if (peer->ss_family == AF_INET)
        return (ntohl(((const struct sockaddr_in *)peer)->sin_addr.s_addr) >> 24) == 127;
    return peer->ss_family == AF_INET6 &&
           IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)peer)->sin6_addr);
}

/* -- calling the session ----------------------------------------------------------------------- */

static PhOwner *
enter(PhConnection *connection)
{
    ph_log_set_context(connection->session->id);
    return ph_owner_enter(connection->owner);
}

static void
leave(PhOwner *previous)
{
    ph_owner_leave(previous);
    ph_log_set_context(NULL);
}

typedef void (*Callback)(PhSession *session);

static void
call(PhConnection *connection, Callback callback)
{
    if (callback == NULL)
        return;
    PhOwner *previous = enter(connection);
    callback(connection->session);
    leave(previous);
}

static void
free_session(void *memory)
{
    g_free(memory);
}

/* The last callback. The session's struct stays until the end of the turn. */
static PH_ON_REACTOR void
say_closed(PhConnection *connection)
{
    PhSession *session = g_steal_pointer(&connection->session);
    ph_timer_disarm(&connection->session_timer);
    if (connection->opened || connection->service == NULL) {
        ph_log_set_context(session->id);
        PhOwner *previous = ph_owner_enter(connection->owner);
        connection->session_class->closed(session, connection->reason);
        leave(previous);
    }
    ph_task_clear(&session->task);
    ph_reactor_free_later(connection->reactor, session, free_session);
}

/* -- input ------------------------------------------------------------------------------------- */

const uint8_t *
ph_connection_input(PhConnection *connection, size_t *length_out)
{
    *length_out = connection->input_end - connection->input_start;
    /* Without a buffer there is nothing to point into. */
    return connection->input != NULL ? connection->input + connection->input_start : NULL;
}

void
ph_connection_consume(PhConnection *connection, size_t length)
{
    g_assert(length <= connection->input_end - connection->input_start);
    connection->input_start += length;
}

void
ph_connection_set_input_limit(PhConnection *connection, size_t bytes)
{
    connection->input_limit = bytes;
}

void
ph_connection_pause(PhConnection *connection)
{
    connection->paused = true;
}

static void
touch(PhConnection *connection)
{
    if (!connection->running)
        ph_reactor_touch(connection->reactor, &connection->touch);
}

void
ph_connection_resume(PhConnection *connection)
{
    if (!connection->paused)
        return;
    connection->paused = false;
    connection->input_again = true;
    touch(connection);
}

/* What a callback left in the scratch buffer moves to a buffer of the connection's own; an empty
 * buffer is freed. */
static void
settle_input(PhConnection *connection)
{
    size_t left = connection->input_end - connection->input_start;
    if (left == 0) {
        if (!connection->input_is_scratch)
            g_free(connection->input);
        connection->input = NULL;
        connection->input_size = 0;
    } else if (connection->input_is_scratch) {
        uint8_t *own = g_malloc(left);
        memcpy(own, connection->input + connection->input_start, left);
        connection->input = own;
        connection->input_size = left;
    } else {
        return;
    }
    connection->input_is_scratch = false;
    connection->input_start = 0;
    connection->input_end = left;
}

/* Makes room behind what is unconsumed. 0: the limit is reached. */
static size_t
make_room(PhConnection *connection)
{
    size_t left = connection->input_end - connection->input_start;
    if (left >= connection->input_limit)
        return 0;
    size_t room = connection->input_limit - left;
    if (left == 0) {
        settle_input(connection);
        connection->input = ph_reactor_scratch(connection->reactor);
        connection->input_is_scratch = true;
        connection->input_size = PH_SCRATCH_BYTES;
        return MIN(room, PH_SCRATCH_BYTES);
    }
    memmove(connection->input, connection->input + connection->input_start, left);
    connection->input_start = 0;
    connection->input_end = left;
    if (connection->input_size < connection->input_limit && connection->input_size - left < left) {
        connection->input_size = MIN(connection->input_limit, MAX(2 * left, CHUNK_BYTES));
        connection->input = g_realloc(connection->input, connection->input_size);
    }
    return MIN(room, connection->input_size - left);
}

typedef enum ReadResult { READ_GOT, READ_LATER, READ_END, READ_ERROR } ReadResult;

static ReadResult
tls_result(PhConnection *connection, int result)
{
    switch (SSL_get_error(connection->ssl, result)) {
    case SSL_ERROR_WANT_READ:
        connection->readable = false;
        return READ_LATER;
    case SSL_ERROR_WANT_WRITE:
        connection->writable = false;
        return READ_LATER;
    case SSL_ERROR_ZERO_RETURN:
        return READ_END;
    default:
        ERR_clear_error();
        return READ_ERROR;
    }
}

static ReadResult
read_some(PhConnection *connection, uint8_t *buffer, size_t size, size_t *length_out)
{
    if (connection->ssl != NULL) {
        ERR_clear_error();
        int n = SSL_read(connection->ssl, buffer, (int)size);
        if (n <= 0)
            return tls_result(connection, n);
        *length_out = (size_t)n;
        return READ_GOT;
    }
    ssize_t n = recv(connection->source.fd, buffer, size, 0);
    if (n > 0) {
        /* Fewer bytes than asked for: the socket is empty, and news makes a new event. An end that
         * is there already made its event, and must be read. */
        if ((size_t)n < size && !connection->hung_up)
            connection->readable = false;
        *length_out = (size_t)n;
        return READ_GOT;
    }
    if (n == 0)
        return READ_END;
    if (errno == EAGAIN || errno == EINTR) {
        connection->readable = errno == EINTR;
        return READ_LATER;
    }
    return READ_ERROR;
}

/* -- output ------------------------------------------------------------------------------------ */

static bool
takes_output(const PhConnection *connection)
{
    return connection->state == STATE_OPEN || connection->state == STATE_CONNECTING ||
           connection->state == STATE_HANDSHAKE || connection->state == STATE_PROXY;
}

static void
append_chunk(PhConnection *connection, Chunk *chunk)
{
    if (connection->output_last != NULL)
        connection->output_last->next = chunk;
    else
        connection->output = chunk;
    connection->output_last = chunk;
}

/* Being full is remembered until `drained` was called, even when the kernel takes it all at
 * once. */
static void
add_pending(PhConnection *connection, size_t length)
{
    connection->output_pending += length;
    if (connection->output_pending > PH_OUTPUT_HIGH_BYTES)
        connection->was_full = true;
}

void
ph_connection_write(PhConnection *connection, const void *bytes, size_t length)
{
    if (!takes_output(connection) || length == 0)
        return;
    const uint8_t *from = bytes;
    add_pending(connection, length);
    Chunk *last = connection->output_last;
    if (last != NULL && last->end < last->size) {
        size_t n = MIN(length, last->size - last->end);
        memcpy(last->data + last->end, from, n);
        last->end += n;
        from += n;
        length -= n;
    }
    if (length > 0) {
        size_t least = connection->output == NULL ? FIRST_CHUNK_BYTES : CHUNK_BYTES;
        size_t size = MAX(length, least - sizeof(Chunk));
        Chunk *chunk = g_malloc(sizeof(Chunk) + size);
        *chunk = (Chunk){ .size = size, .end = length };
        memcpy(chunk->data, from, length);
        append_chunk(connection, chunk);
    }
    touch(connection);
}

void
ph_connection_puts(PhConnection *connection, const char *text)
{
    ph_connection_write(connection, text, strlen(text));
}

void
ph_connection_printf(PhConnection *connection, const char *format, ...)
{
    char small[512];
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(small, sizeof(small), format, arguments);
    va_end(arguments);
    if (n < 0)
        return;
    if ((size_t)n < sizeof(small)) {
        ph_connection_write(connection, small, (size_t)n);
        return;
    }
    va_start(arguments, format);
    g_autofree char *text = g_strdup_vprintf(format, arguments);
    va_end(arguments);
    ph_connection_write(connection, text, strlen(text));
}

void
ph_connection_write_bytes(PhConnection *connection, GBytes *bytes)
{
    size_t length = g_bytes_get_size(bytes);
    if (length < CHUNK_BYTES) {
        ph_connection_write(connection, g_bytes_get_data(bytes, NULL), length);
        return;
    }
    if (!takes_output(connection))
        return;
    Chunk *chunk = g_new0(Chunk, 1);
    chunk->bytes = g_bytes_ref(bytes);
    chunk->end = length;
    add_pending(connection, length);
    append_chunk(connection, chunk);
    touch(connection);
}

size_t
ph_connection_output_pending(const PhConnection *connection)
{
    return connection->output_pending;
}

bool
ph_connection_output_is_full(const PhConnection *connection)
{
    return connection->output_pending > PH_OUTPUT_HIGH_BYTES;
}

/* -- files ------------------------------------------------------------------------------------- */

PhFile *
ph_file_new(int fd)
{
    PhFile *file = g_new(PhFile, 1);
    ph_ref_init(&file->ref);
    file->fd = fd;
    return file;
}

PhFile *
ph_file_ref(PhFile *file)
{
    ph_ref_take(&file->ref);
    return file;
}

void
ph_file_unref(PhFile *file)
{
    if (file == NULL || !ph_ref_drop(&file->ref))
        return;
    close(file->fd);
    g_free(file);
}

int
ph_file_fd(const PhFile *file)
{
    return file->fd;
}

void
ph_connection_write_file(PhConnection *connection, PhFile *file, int64_t offset, int64_t length)
{
    if (!takes_output(connection) || length <= 0)
        return;
    Chunk *chunk = g_new0(Chunk, 1);
    chunk->file = ph_file_ref(file);
    chunk->start = (size_t)offset;
    chunk->end = (size_t)(offset + length);
    add_pending(connection, (size_t)length);
    append_chunk(connection, chunk);
    touch(connection);
}

static const uint8_t *
chunk_data(const Chunk *chunk)
{
    const uint8_t *data = chunk->bytes != NULL ? g_bytes_get_data(chunk->bytes, NULL) : chunk->data;
    return data + chunk->start;
}

static void
chunk_free(Chunk *chunk)
{
    if (chunk->bytes != NULL)
        g_bytes_unref(chunk->bytes);
    ph_file_unref(chunk->file);
    g_free(chunk);
}

static void
drop_output(PhConnection *connection, size_t length)
{
    connection->output_pending -= length;
    connection->bytes_out += (int64_t)length;
    while (connection->output != NULL) {
        Chunk *chunk = connection->output;
        size_t here = MIN(length, chunk->end - chunk->start);
        chunk->start += here;
        length -= here;
        if (chunk->start < chunk->end)
            return;
        connection->output = chunk->next;
        if (connection->output == NULL)
            connection->output_last = NULL;
        chunk_free(chunk);
    }
}

/* READ_GOT: `length_out` bytes were taken. */
static ReadResult
write_plain(PhConnection *connection, size_t *length_out)
{
    struct iovec parts[GATHER_CHUNKS];
    size_t n_parts = 0;
    size_t asked = 0;
    const Chunk *chunk = connection->output;
    for (; chunk != NULL && chunk->file == NULL && n_parts < GATHER_CHUNKS; chunk = chunk->next) {
        /* sendmsg() only reads; its type does not say so. */
        parts[n_parts].iov_base = (void *)(uintptr_t)chunk_data(chunk);
        parts[n_parts].iov_len = chunk->end - chunk->start;
        asked += parts[n_parts++].iov_len;
    }
    struct msghdr message = { .msg_iov = parts, .msg_iovlen = n_parts };
    /* What follows at once shares the packet. */
    int more = chunk != NULL && !connection->reading_file ? MSG_MORE : 0;
    ssize_t n = sendmsg(connection->source.fd, &message, MSG_NOSIGNAL | more);
    if (n >= 0) {
        if ((size_t)n < asked)
            connection->writable = false;
        *length_out = (size_t)n;
        return READ_GOT;
    }
    if (errno == EAGAIN || errno == EINTR) {
        connection->writable = errno == EINTR;
        return READ_LATER;
    }
    return READ_ERROR;
}

/* Small chunks are gathered into one record. A retry must offer the same bytes again, and does: the
 * queue only grows behind them. */
static ReadResult
write_tls(PhConnection *connection, size_t *length_out)
{
    const Chunk *first = connection->output;
    const uint8_t *data = chunk_data(first);
    size_t length = first->end - first->start;
    if (length < TLS_RECORD_BYTES && first->next != NULL) {
        uint8_t *scratch = ph_reactor_scratch(connection->reactor);
        length = 0;
        for (const Chunk *chunk = first;
             chunk != NULL && chunk->file == NULL && length < TLS_RECORD_BYTES;
             chunk = chunk->next) {
            size_t n = MIN(chunk->end - chunk->start, TLS_RECORD_BYTES - length);
            memcpy(scratch + length, chunk_data(chunk), n);
            length += n;
        }
        data = scratch;
    }
    ERR_clear_error();
    int n = SSL_write(connection->ssl, data, (int)MIN(length, TLS_RECORD_BYTES));
    if (n <= 0)
        return tls_result(connection, n);
    *length_out = (size_t)n;
    return READ_GOT;
}

/* The slice that was read goes before the rest of its file. */
static void
insert_slice(PhConnection *connection, Chunk *slice)
{
    Chunk *rest = connection->output;
    rest->start += slice->end;
    if (rest->start < rest->end) {
        slice->next = rest;
    } else {
        slice->next = rest->next;
        if (connection->output_last == rest)
            connection->output_last = slice;
        chunk_free(rest);
    }
    connection->output = slice;
}

static void
read_slice(void *data)
{
    ph_assert_in_job();
    FileRead *read_ = data;
    Chunk *slice = read_->chunk;
    while (slice->end < slice->size) {
        ssize_t n = pread(read_->file->fd, slice->data + slice->end, slice->size - slice->end,
            (off_t)(read_->offset + slice->end));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            read_->error = n < 0 ? errno : ENODATA;
            return;
        }
        slice->end += (size_t)n;
    }
}

static void
slice_read(PhTask *task, void *data)
{
    ph_assert_on_reactor();
    (void)task;
    FileRead *read_ = data;
    PhConnection *connection = read_->connection;
    connection->reading_file = false;
    if (read_->error != 0) {
        break_off(connection, PH_CLOSE_ERROR);
        return;
    }
    if (connection->output != NULL)
        insert_slice(connection, g_steal_pointer(&read_->chunk));
    touch(connection);
}

static void
file_read_free(void *data)
{
    FileRead *read_ = data;
    ph_file_unref(read_->file);
    if (read_->chunk != NULL)
        chunk_free(read_->chunk);
    g_free(read_);
}

static Chunk *
slice_new(const Chunk *chunk)
{
    size_t size = MIN(chunk->end - chunk->start, FILE_SLICE_BYTES);
    Chunk *slice = g_malloc(sizeof(Chunk) + size);
    *slice = (Chunk){ .size = size };
    return slice;
}

static PH_ON_REACTOR void
begin_read(PhConnection *connection)
{
    const Chunk *chunk = connection->output;
    if (connection->file_task.core == NULL) {
        PhOwner *previous = ph_owner_enter(connection->owner);
        ph_task_init(&connection->file_task, connection->reactor);
        ph_owner_leave(previous);
    }
    FileRead *read_ = g_new0(FileRead, 1);
    read_->file = ph_file_ref(chunk->file);
    read_->connection = connection;
    read_->chunk = slice_new(chunk);
    read_->offset = chunk->start;
    connection->reading_file = true;
    ph_task_run(&connection->file_task, PH_LANE_WEB, read_slice, slice_read, read_, file_read_free);
}

/* How much from `offset` on is in memory, up to `length`: asked, not read. Of each PROBE_BYTES one is asked
 * for: what was read ahead together mostly leaves together, and where it did not, the reactor waits for one
 * read. cachestat() would tell it with one call, but of files that are ours to write only. */
static size_t
cached_bytes(int fd, size_t offset, size_t length)
{
    size_t good = 0;
    while (good < length) {
        char byte;
        struct iovec part = { .iov_base = &byte, .iov_len = 1 };
        if (preadv2(fd, &part, 1, (off_t)(offset + good), RWF_NOWAIT) != 1)
            break;
        good += PROBE_BYTES - (offset + good) % PROBE_BYTES;
    }
    return MIN(good, length);
}

/* Where the part ends that begins at or before `start` and was in memory a moment ago; `start`: none. */
static size_t
warm_end(const PhFile *file, size_t start, int64_t now_us)
{
    if (__atomic_load_n(&file->warm_until_us, __ATOMIC_RELAXED) <= now_us ||
        __atomic_load_n(&file->warm_start, __ATOMIC_RELAXED) > start)
        return start;
    return MAX(start, __atomic_load_n(&file->warm_end, __ATOMIC_RELAXED));
}

/* The part of the file at the head of the queue that can be sent without waiting for a disk. */
static PH_ON_REACTOR size_t
window_of(const PhConnection *connection)
{
    const Chunk *chunk = connection->output;
    PhFile *file = chunk->file;
    int64_t now_us = ph_reactor_now_us(connection->reactor);
    size_t start = chunk->start;
    size_t end = MIN(chunk->end, start + FILE_WINDOW_BYTES);
    size_t known = warm_end(file, start, now_us);
    if (known >= end)
        return end - start;
    size_t found = cached_bytes(file->fd, known, end - known);
    if (known == start) {
        __atomic_store_n(&file->warm_until_us, 0, __ATOMIC_RELEASE);
        __atomic_store_n(&file->warm_start, start, __ATOMIC_RELEASE);
        __atomic_store_n(&file->warm_end, start + found, __ATOMIC_RELEASE);
        __atomic_store_n(&file->warm_until_us, now_us + WARM_US, __ATOMIC_RELEASE);
    } else {
        /* Unless another reactor has begun anew meanwhile. */
        size_t expected = known;
        __atomic_compare_exchange_n(
            &file->warm_end, &expected, known + found, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
    }
    return known + found - start;
}

/* As write_plain(), for the file at the head of the queue. */
static PH_ON_REACTOR ReadResult
send_file(PhConnection *connection, size_t *length_out)
{
    const Chunk *chunk = connection->output;
    size_t window = window_of(connection);
    if (window == 0) {
        begin_read(connection);
        return READ_LATER;
    }
    off_t offset = (off_t)chunk->start;
    ssize_t n = sendfile(connection->source.fd, chunk->file->fd, &offset, window);
    if (n > 0) {
        *length_out = (size_t)n;
        return READ_GOT;
    }
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        connection->writable = errno == EINTR;
        return READ_LATER;
    }
    if (n < 0 && (errno == EINVAL || errno == ENOSYS)) { /* a file system without it */
        begin_read(connection);
        return READ_LATER;
    }
    return READ_ERROR;
}

/* With TLS a slice of the file at the head of the queue becomes a chunk of bytes. READ_GOT: it did. */
static PH_ON_REACTOR ReadResult
load_file(PhConnection *connection)
{
    const Chunk *chunk = connection->output;
    Chunk *slice = slice_new(chunk);
    struct iovec part = { .iov_base = slice->data, .iov_len = slice->size };
    ssize_t n = preadv2(chunk->file->fd, &part, 1, (off_t)chunk->start, RWF_NOWAIT);
    if (n > 0) {
        slice->end = (size_t)n;
        insert_slice(connection, slice);
        return READ_GOT;
    }
    chunk_free(slice);
    if (n == 0)
        return READ_ERROR;
    begin_read(connection);
    return READ_LATER;
}

static PH_ON_REACTOR ReadResult
write_some(PhConnection *connection, size_t *length_out)
{
    bool file = connection->output->file != NULL;
    if (connection->ssl == NULL)
        return file ? send_file(connection, length_out) : write_plain(connection, length_out);
    ReadResult loaded = file ? load_file(connection) : READ_GOT;
    return loaded == READ_GOT ? write_tls(connection, length_out) : loaded;
}

/* False: the connection is broken. The scratch buffer must be free. */
static PH_ON_REACTOR bool
flush(PhConnection *connection)
{
    size_t sent = 0;
    while (connection->output != NULL && connection->writable &&
           !(connection->reading_file && connection->output->file != NULL)) {
        size_t n = 0;
        ReadResult result = write_some(connection, &n);
        if (result == READ_ERROR || result == READ_END)
            return false;
        if (result == READ_LATER)
            break;
        drop_output(connection, n);
        sent += n;
        if (sent >= BYTES_PER_RUN) { /* a peer that reads as fast as we write is not alone */
            ph_reactor_touch(connection->reactor, &connection->touch);
            break;
        }
    }
    if (connection->state == STATE_OPEN) {
        if (connection->output == NULL)
            ph_timer_disarm(&connection->life_timer);
        else if (sent > 0 || !ph_timer_is_armed(&connection->life_timer))
            ph_timer_arm_ms(
                &connection->life_timer, connection->reactor, connection->stall_timeout_ms);
    } else if (connection->state == STATE_FLUSHING && sent > 0) {
        ph_timer_arm_ms(&connection->life_timer, connection->reactor, FLUSH_TIMEOUT_MS);
    }
    return true;
}

/* -- the end ----------------------------------------------------------------------------------- */

/* At once: no flush, no linger. */
static void
break_off(PhConnection *connection, PhCloseReason reason)
{
    if (connection->state == STATE_DEAD)
        return;
    connection->reason = reason;
    connection->state = STATE_DEAD;
    touch(connection);
}

void
ph_connection_close(PhConnection *connection)
{
    if (connection->state >= STATE_FLUSHING)
        return;
    connection->state = STATE_FLUSHING;
    connection->reason = PH_CLOSE_LOCAL;
    ph_timer_disarm(&connection->session_timer);
    ph_timer_arm_ms(&connection->life_timer, connection->reactor, FLUSH_TIMEOUT_MS);
    touch(connection);
}

void
ph_connection_finish(PhConnection *connection)
{
    connection->is_last = true;
    ph_connection_close(connection);
}

void
ph_connection_abort(PhConnection *connection)
{
    break_off(connection, PH_CLOSE_LOCAL);
}

void
ph_connection_set_stall_timeout_ms(PhConnection *connection, int64_t timeout_ms)
{
    connection->stall_timeout_ms = timeout_ms;
}

bool
ph_connection_is_closing(const PhConnection *connection)
{
    return connection->state >= STATE_FLUSHING;
}

PhReactor *
ph_connection_reactor(const PhConnection *connection)
{
    return connection->reactor;
}

static void
free_connection(void *memory)
{
    PhConnection *connection = memory;
    count(connection, -1); /* before the code of its service may go */
    ph_owner_unuse(connection->owner);
    g_free(connection);
}

static void
destroy(PhConnection *connection)
{
    connection->state = STATE_DEAD;
    if (connection->session != NULL)
        say_closed(connection);
    ph_timer_disarm(&connection->session_timer);
    ph_timer_disarm(&connection->life_timer);
    if (connection->source.fd >= 0) {
        /* Closing ends the watch, too: this process has no second descriptor of it, and never forks. */
        close(connection->source.fd);
        connection->source.fd = -1;
    }
    connection->link.previous->next = connection->link.next;
    connection->link.next->previous = connection->link.previous;
    SSL_free(g_steal_pointer(&connection->ssl));
    ph_task_clear(&connection->file_task);
    if (!connection->input_is_scratch)
        g_free(connection->input);
    while (connection->output != NULL) {
        Chunk *chunk = connection->output;
        connection->output = chunk->next;
        chunk_free(chunk);
    }
    g_free(connection->server_name);
    g_free(connection->ca);
    g_free(connection->activity);
    g_free(connection->login);
    ph_reactor_free_later(connection->reactor, connection, free_connection);
}

static PH_ON_REACTOR void
begin_linger(PhConnection *connection)
{
    say_closed(connection);
    if (connection->ssl != NULL && connection->reason == PH_CLOSE_LOCAL) {
        ERR_clear_error();
        SSL_shutdown(connection->ssl);
    }
    /* Bytes that were not read would make the kernel reset the connection, and the peer could lose what
     * it has not read; who said that nothing follows, and sent nothing, needs no waiting for. */
    bool has_all = connection->is_last && !connection->readable &&
                   connection->input_end == connection->input_start;
    if (connection->peer_ended || has_all || shutdown(connection->source.fd, SHUT_WR) != 0) {
        destroy(connection);
        return;
    }
    connection->state = STATE_LINGERING;
    ph_timer_arm_ms(&connection->life_timer, connection->reactor, LINGER_MS);
}

static PH_ON_REACTOR void
linger(PhConnection *connection)
{
    for (int i = 0; i < ROUNDS_PER_RUN; i++) {
        ssize_t n = recv(
            connection->source.fd, ph_reactor_scratch(connection->reactor), PH_SCRATCH_BYTES, 0);
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
            destroy(connection);
            return;
        }
        if (n < 0)
            return;
    }
    /* A peer that pours for ever has had its chance. */
    destroy(connection);
}

/* -- opening ----------------------------------------------------------------------------------- */

static PH_ON_REACTOR void
open_session(PhConnection *connection)
{
    connection->state = STATE_OPEN;
    ph_timer_disarm(&connection->life_timer);
    connection->opened = true;
    call(connection, connection->session_class->opened);
}

static PH_ON_REACTOR void
begin_handshake(PhConnection *connection)
{
    connection->ssl =
        connection->service != NULL
            ? ph_tls_server_new(connection->source.fd, connection->service)
            : ph_tls_client_new(connection->source.fd, connection->server_name, connection->ca);
    if (connection->ssl == NULL) {
        break_off(connection, PH_CLOSE_ERROR);
        return;
    }
    connection->state = STATE_HANDSHAKE;
    connection->readable = connection->writable = true;
    /* An outgoing connection's own deadline covers its first handshake, and runs already. */
    if (connection->service != NULL || connection->opened)
        ph_timer_arm_ms(&connection->life_timer, connection->reactor, HANDSHAKE_TIMEOUT_MS);
}

static PH_ON_REACTOR void
handshake(PhConnection *connection)
{
    ERR_clear_error();
    int result = SSL_do_handshake(connection->ssl);
    if (result == 1) {
        bool first = !connection->opened;
        if (first) {
            open_session(connection);
        } else {
            connection->state = STATE_OPEN;
            ph_timer_disarm(&connection->life_timer);
            connection->secured = true;
        }
        connection->readable = true;
        return;
    }
    int error = SSL_get_error(connection->ssl, result);
    if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE)
        return;
    ph_log_set_context(connection->session->id);
    ph_log(PH_LOG_INFO, "tls.failed", "peer=%s service=%s reason=\"%s\"",
        ph_connection_peer_address(connection),
        connection->service != NULL ? connection->service->name : "outgoing", ph_tls_take_error());
    ph_log_set_context(NULL);
    break_off(connection, connection->opened ? PH_CLOSE_ERROR : PH_CLOSE_REFUSED);
}

static PH_ON_REACTOR void
after_transport(PhConnection *connection)
{
    bool implicit = connection->service != NULL ? connection->service->tls == PH_TLS_IMPLICIT
                                                : connection->tls_at_once;
    if (implicit)
        begin_handshake(connection);
    else
        open_session(connection);
}

static PH_ON_REACTOR void
read_proxy_header(PhConnection *connection)
{
    uint8_t bytes[PH_PROXY_HEADER_MAX_BYTES];
    ssize_t n = recv(connection->source.fd, bytes, sizeof(bytes), MSG_PEEK);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    PhProxyHeader header;
    PhProxyParse parsed = n > 0 ? ph_proxy_parse(bytes, (size_t)n, &header) : PH_PROXY_BAD;
    if (parsed == PH_PROXY_MORE)
        return;
    if (parsed == PH_PROXY_BAD ||
        recv(connection->source.fd, bytes, header.length, 0) != (ssize_t)header.length) {
        ph_log(
            PH_LOG_WARNING, "proxy.bad-header", "peer=%s", ph_connection_peer_address(connection));
        break_off(connection, PH_CLOSE_ERROR);
        return;
    }
    if (header.is_proxied) {
        connection->peer = header.source;
        connection->local = header.destination;
        connection->peer_text[0] = connection->local_text[0] = '\0';
    }
    after_transport(connection);
}

static PH_ON_REACTOR void
finish_connect(PhConnection *connection)
{
    if (!connection->writable)
        return;
    int failure = 0;
    socklen_t size = sizeof(failure);
    getsockopt(connection->source.fd, SOL_SOCKET, SO_ERROR, &failure, &size);
    if (failure != 0) {
        break_off(connection, PH_CLOSE_REFUSED);
        return;
    }
    after_transport(connection);
}

/* -- the one function that acts ---------------------------------------------------------------- */

static PH_ON_REACTOR void
peer_ended(PhConnection *connection)
{
    if (connection->peer_ended)
        return;
    connection->peer_ended = true;
    if (connection->session_class->ended != NULL) {
        call(connection, connection->session_class->ended);
    } else {
        ph_connection_close(connection);
        connection->reason = PH_CLOSE_PEER;
    }
}

static void
show_input(PhConnection *connection)
{
    connection->input_again = false;
    call(connection, connection->session_class->input);
    settle_input(connection);
}

/* One step of an open connection; false when there is nothing to do now. */
static PH_ON_REACTOR bool
step_open(PhConnection *connection)
{
    if (connection->secured) {
        connection->secured = false;
        call(connection, connection->session_class->secured);
        return true;
    }
    if (connection->was_full && connection->output_pending < PH_OUTPUT_LOW_BYTES) {
        connection->was_full = false;
        connection->input_again = true;
        call(connection, connection->session_class->drained);
        return true;
    }
    if (connection->paused || connection->was_full)
        return false;
    if (connection->input_again && connection->input_end > connection->input_start) {
        show_input(connection);
        return true;
    }
    if (!connection->readable || connection->peer_ended)
        return false;
    size_t room = make_room(connection);
    if (room == 0)
        return false;
    size_t n = 0;
    ReadResult result = read_some(connection, connection->input + connection->input_end, room, &n);
    if (result == READ_GOT) {
        connection->input_end += n;
        connection->bytes_in += (int64_t)n;
        show_input(connection);
        return true;
    }
    settle_input(connection);
    if (result == READ_ERROR)
        break_off(connection, PH_CLOSE_ERROR);
    else if (result == READ_END)
        peer_ended(connection);
    return result == READ_END;
}

static PH_ON_REACTOR void
run_state(PhConnection *connection)
{
    if (connection->state == STATE_CONNECTING)
        finish_connect(connection);
    if (connection->state == STATE_PROXY)
        read_proxy_header(connection);
    if (connection->state == STATE_HANDSHAKE)
        handshake(connection);
    for (int round = 0; connection->state == STATE_OPEN; round++) {
        if (!flush(connection)) {
            break_off(connection, PH_CLOSE_ERROR);
            break;
        }
        if (round >= ROUNDS_PER_RUN) {
            ph_reactor_touch(connection->reactor, &connection->touch);
            break;
        }
        if (!step_open(connection))
            break;
    }
    if (connection->state == STATE_STARTTLS) {
        if (!flush(connection))
            break_off(connection, PH_CLOSE_ERROR);
        else if (connection->output == NULL)
            begin_handshake(connection);
        if (connection->state == STATE_HANDSHAKE)
            handshake(connection);
        if (connection->state == STATE_OPEN)
            ph_reactor_touch(connection->reactor, &connection->touch);
    }
    if (connection->state == STATE_FLUSHING) {
        if (!flush(connection))
            break_off(connection, PH_CLOSE_ERROR);
        else if (connection->output == NULL)
            begin_linger(connection);
    }
    if (connection->state == STATE_LINGERING)
        linger(connection);
}

static void
connection_run(PhConnection *connection)
{
    if (connection->source.fd < 0)
        return;
    connection->running = true;
    run_state(connection);
    connection->running = false;
    if (connection->state == STATE_DEAD && connection->source.fd >= 0)
        destroy(connection);
}

static void
touched(PhTouch *touch_node)
{
    ph_assert_on_reactor();
    connection_run(PH_CONTAINER_OF(touch_node, PhConnection, touch));
}

static void
ready(PhSource *source, uint32_t events)
{
    ph_assert_on_reactor();
    PhConnection *connection = (PhConnection *)source;
    if (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR))
        connection->readable = true;
    if (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR))
        connection->hung_up = true;
    if (events & (EPOLLOUT | EPOLLHUP | EPOLLERR))
        connection->writable = true;
    connection_run(connection);
}

/* -- timers ------------------------------------------------------------------------------------ */

static void
session_timer_due(void *data)
{
    ph_assert_on_reactor();
    PhConnection *connection = data;
    if (connection->state >= STATE_FLUSHING)
        return;
    if (connection->session_class->timed_out != NULL)
        call(connection, connection->session_class->timed_out);
    else
        break_off(connection, PH_CLOSE_TIMEOUT);
}

static void
life_timer_due(void *data)
{
    ph_assert_on_reactor();
    PhConnection *connection = data;
    bool refused = !connection->opened && connection->service == NULL;
    break_off(connection, refused ? PH_CLOSE_REFUSED : PH_CLOSE_TIMEOUT);
}

void
ph_connection_set_timeout_ms(PhConnection *connection, int64_t timeout_ms)
{
    if (timeout_ms > 0 && connection->state < STATE_FLUSHING)
        ph_timer_arm_ms(&connection->session_timer, connection->reactor, timeout_ms);
    else
        ph_timer_disarm(&connection->session_timer);
}

/* -- TLS --------------------------------------------------------------------------------------- */

bool
ph_connection_start_tls(PhConnection *connection)
{
    if (connection->input_end > connection->input_start || connection->ssl != NULL)
        return false;
    if (connection->state != STATE_OPEN)
        return true;
    connection->state = STATE_STARTTLS;
    touch(connection);
    return true;
}

bool
ph_connection_is_secure(const PhConnection *connection)
{
    return connection->ssl != NULL;
}

const char *
ph_connection_tls_version(const PhConnection *connection)
{
    return connection->ssl != NULL ? SSL_get_version(connection->ssl) : NULL;
}

const char *
ph_connection_tls_cipher(const PhConnection *connection, int *bits_out)
{
    if (connection->ssl == NULL) {
        *bits_out = 0;
        return NULL;
    }
    const SSL_CIPHER *cipher = SSL_get_current_cipher(connection->ssl);
    *bits_out = SSL_CIPHER_get_bits(cipher, NULL);
    return SSL_CIPHER_get_name(cipher);
}

const char *
ph_connection_tls_server_name(const PhConnection *connection)
{
    return connection->ssl != NULL ? SSL_get_servername(connection->ssl, TLSEXT_NAMETYPE_host_name)
                                   : NULL;
}

/* -- making ------------------------------------------------------------------------------------ */

/* Time, reactor and a counter, so that ids differ within a node and over restarts. */
static void
make_session_id(PhReactor *reactor, char *id)
{
    static const char digits[] = "0123456789abcdefghjkmnpqrstvwxyz";
    static int counter;
    uint64_t number = (uint64_t)(ph_time_now_us() / G_USEC_PER_SEC) << 30 |
                      ((uint64_t)ph_reactor_index(reactor) & 0x3f) << 24 |
                      ((uint64_t)__atomic_fetch_add(&counter, 1, __ATOMIC_RELAXED) & 0xffffff);
    for (int i = 12; i >= 0; i--) {
        id[i] = digits[number & 31];
        number >>= 5;
    }
    id[13] = '\0';
}

static PH_ON_REACTOR PhConnection *
connection_new(PhReactor *reactor, int fd, const PhSessionClass *session_class,
    const PhServiceRow *service, PhOwner *owner, void *plugin_state)
{
    PhConnection *connection = g_new0(PhConnection, 1);
    connection->source.fd = fd;
    connection->source.ready = ready;
    connection->touch.func = touched;
    connection->reactor = reactor;
    connection->session_class = session_class;
    connection->service = service;
    connection->owner = owner;
    ph_owner_use(owner);
    connection->input_limit = INPUT_LIMIT_BYTES;
    connection->stall_timeout_ms = WRITE_STALL_MS;
    connection->since_us = ph_time_now_us();
    ph_timer_init(&connection->session_timer, session_timer_due, connection);
    ph_timer_init(&connection->life_timer, life_timer_due, connection);
    PhConnectionLink *list = ph_reactor_connections(reactor);
    connection->link.previous = list;
    connection->link.next = list->next;
    list->next->previous = &connection->link;
    list->next = &connection->link;
    count(connection, 1);

    PhSession *session = g_malloc0(session_class->size);
    session->connection = connection;
    session->session_class = session_class;
    session->service = service;
    session->plugin_state = plugin_state;
    make_session_id(reactor, session->id);
    PhOwner *previous = ph_owner_enter(owner);
    ph_task_init(&session->task, reactor);
    ph_owner_leave(previous);
    ph_task_set_context(&session->task, session->id);
    connection->session = session;
    return connection;
}

static bool
watch(PhConnection *connection, GError **error)
{
    return ph_reactor_add(
        connection->reactor, &connection->source, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, error);
}

void
ph_connection_accept(PhReactor *reactor, int fd, const struct sockaddr_storage *peer,
    const PhServiceRow *service, PhOwner *owner, bool proxied)
{
    ph_assert_on_reactor();
    PhConnection *connection =
        connection_new(reactor, fd, service->session_class, service, owner, owner->state);
    connection->peer = *peer;
    connection->readable = connection->writable = true;
    if (proxied) {
        connection->state = STATE_PROXY;
        ph_timer_arm_ms(&connection->life_timer, reactor, HANDSHAKE_TIMEOUT_MS);
    } else {
        connection->running = true;
        after_transport(connection);
        connection->running = false;
    }
    connection_run(connection);
    /* Who had sent its one request already, and was answered, is gone without having been watched. */
    g_autoptr(GError) error = NULL;
    if (connection->source.fd >= 0 && !watch(connection, &error)) {
        ph_log(PH_LOG_ERROR, "connection.refused", "%s", error->message);
        destroy(connection);
    }
}

PhSession *
ph_connection_connect(PhReactor *reactor, const PhConnectSpec *spec,
    const PhSessionClass *session_class, void *plugin_state, GError **error)
{
    ph_assert_on_reactor();
    struct sockaddr_storage peer = { .ss_family = AF_UNSPEC };
    socklen_t size = 0;
    struct sockaddr_in *in = (struct sockaddr_in *)&peer;
    struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&peer;
    if (inet_pton(AF_INET, spec->address, &in->sin_addr) == 1) {
        in->sin_family = AF_INET;
        in->sin_port = htons((uint16_t)spec->port);
        size = sizeof(*in);
    } else if (inet_pton(AF_INET6, spec->address, &in6->sin6_addr) == 1) {
        in6->sin6_family = AF_INET6;
        in6->sin6_port = htons((uint16_t)spec->port);
        size = sizeof(*in6);
    } else {
        g_set_error(error, PH_ERROR, PH_ERROR_SYNTAX, "\"%s\" is no address", spec->address);
        return NULL;
    }
    int fd = socket(peer.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        g_set_error(error, PH_ERROR, PH_ERROR_TEMPORARY, "make a socket: %s", g_strerror(errno));
        return NULL;
    }
    int one = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
    PhConnection *connection =
        connection_new(reactor, fd, session_class, NULL, ph_owner_current(), plugin_state);
    connection->state = STATE_CONNECTING;
    connection->peer = peer;
    connection->tls_at_once = spec->tls;
    connection->server_name = g_strdup(spec->server_name);
    connection->ca = g_strdup(spec->ca);
    ph_timer_arm_ms(&connection->life_timer, reactor, spec->timeout_ms);
    if (connect(fd, (const struct sockaddr *)&peer, size) != 0 && errno != EINPROGRESS)
        break_off(connection, PH_CLOSE_REFUSED);
    else if (!watch(connection, NULL))
        break_off(connection, PH_CLOSE_REFUSED);
    return connection->session;
}

/* -- lists ------------------------------------------------------------------------------------- */

void
ph_session_set_activity(PhSession *session, const char *activity)
{
    PhConnection *connection = session->connection;
    g_free(connection->activity);
    connection->activity = g_strdup(activity);
}

void
ph_session_info_free(PhSessionInfo *info)
{
    g_free(info->service);
    g_free(info->peer);
    g_free(info->login);
    g_free(info->activity);
    g_free(info);
}

static PhConnection *
from_link(PhConnectionLink *link)
{
    return PH_CONTAINER_OF(link, PhConnection, link);
}

void
ph_connection_list(PhReactor *reactor, GPtrArray *infos)
{
    PhConnectionLink *list = ph_reactor_connections(reactor);
    for (PhConnectionLink *link = list->next; link != list; link = link->next) {
        PhConnection *connection = from_link(link);
        if (connection->session == NULL || connection->state >= STATE_FLUSHING)
            continue;
        PhSessionInfo *info = g_new0(PhSessionInfo, 1);
        g_strlcpy(info->id, connection->session->id, sizeof(info->id));
        info->service =
            g_strdup(connection->service != NULL ? connection->service->name : "outgoing");
        info->peer = g_strdup(ph_connection_peer_address(connection));
        info->login = g_strdup(connection->login);
        char text[256] = "";
        if (connection->session_class->describe != NULL)
            connection->session_class->describe(connection->session, text, sizeof(text));
        info->activity = g_strdup(text[0] != '\0' ? text : connection->activity);
        info->secure = connection->ssl != NULL;
        info->since_us = connection->since_us;
        info->bytes_in = connection->bytes_in;
        info->bytes_out = connection->bytes_out;
        g_ptr_array_add(infos, info);
    }
}

static void
say_farewell(PhConnection *connection, PhFarewell why)
{
    ph_assert_on_reactor();
    if (connection->state != STATE_OPEN || connection->session_class->farewell == NULL) {
        ph_connection_close(connection);
        return;
    }
    PhOwner *previous = enter(connection);
    connection->session_class->farewell(connection->session, why);
    leave(previous);
}

static bool
has_session(const PhConnection *connection)
{
    return connection->session != NULL && connection->state < STATE_FLUSHING;
}

unsigned
ph_connection_farewell(PhReactor *reactor, const PhOwner *owner, const char *id, PhFarewell why)
{
    unsigned n = 0;
    PhConnectionLink *list = ph_reactor_connections(reactor);
    for (PhConnectionLink *link = list->next; link != list; link = link->next) {
        PhConnection *connection = from_link(link);
        if (!has_session(connection) || (owner != NULL && connection->owner != owner) ||
            (id != NULL && strcmp(id, connection->session->id) != 0))
            continue;
        n++;
        say_farewell(connection, why);
    }
    return n;
}

void
ph_session_set_account(PhSession *session, int64_t account_id, const char *login)
{
    PhConnection *connection = session->connection;
    g_free(connection->login);
    connection->login = g_strdup(login);
    connection->account_id = account_id;
}

char *
ph_connection_find_login(PhReactor *reactor, int64_t account_id)
{
    PhConnectionLink *list = ph_reactor_connections(reactor);
    for (PhConnectionLink *link = list->next; link != list; link = link->next) {
        const PhConnection *connection = from_link(link);
        if (has_session(connection) && connection->account_id == account_id)
            return g_strdup(connection->login);
    }
    return NULL;
}

unsigned
ph_connection_cut_account(PhReactor *reactor, int64_t account_id)
{
    unsigned n = 0;
    PhConnectionLink *list = ph_reactor_connections(reactor);
    for (PhConnectionLink *link = list->next; link != list; link = link->next) {
        PhConnection *connection = from_link(link);
        if (!has_session(connection) || connection->account_id != account_id)
            continue;
        n++;
        say_farewell(connection, PH_FAREWELL_CUT);
    }
    return n;
}

void
ph_connection_abort_all(PhReactor *reactor, const PhOwner *owner)
{
    PhConnectionLink *list = ph_reactor_connections(reactor);
    for (PhConnectionLink *link = list->next; link != list; link = link->next) {
        PhConnection *connection = from_link(link);
        if (owner == NULL || connection->owner == owner)
            break_off(connection, PH_CLOSE_STOPPING);
    }
}
