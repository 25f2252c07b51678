/* The native engine: runs plans and the library's collectives, and takes the time itself.
 *
 * No mpi.h is included and no MPI is linked: the functions' addresses and the handles' values come
 * from the library that mpi4py has loaded. MPI handles are four bytes wide in MPICH and Intel MPI
 * and as wide as a pointer in Open MPI, so this file is compiled twice, with HANDLE_BYTES 4 and 8.
 *
 * Nothing is allocated between the first and the last time stamp, and the GIL is released there.
 */
#define _GNU_SOURCE
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <limits.h>
#include <sched.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include "_kernels.h"

#if HANDLE_BYTES == 4
typedef int32_t handle;
#define MODULE _native4
#elif HANDLE_BYTES == 8
typedef void *handle;
#define MODULE _native8
#else
#error "HANDLE_BYTES must be 4 or 8"
#endif

/* Room for one MPI_Status: at most 24 bytes in the libraries there are. STATUS_IGNORE has a
 * different value in each, so a real status is passed instead. */
static _Alignas(16) char status[128];

enum { LINE = 64 }; /* bytes of a line of the cache */

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- The library ---------------------------------------------------------------------------- */

typedef int (*post_function)(const void *, int, handle, int, int, handle, handle *);
typedef int (*test_function)(handle *, int *, void *);
typedef int (*probe_function)(int, int, handle, int *, void *);
typedef int (*string_function)(int, char *, int *);

typedef struct {
    PyObject_HEAD
    post_function isend, irecv;
    test_function test;
    probe_function probe;
    string_function error_string;
    handle comm, byte;
    long spins; /* polls between two yields: few where ranks share cores */
} Library;

static void *address(PyObject *functions, const char *name)
{
    PyObject *value = PyDict_GetItemString(functions, name); /* borrowed */
    if (!value) {
        PyErr_Format(PyExc_KeyError, "no address of %s", name);
        return NULL;
    }
    return PyLong_AsVoidPtr(value);
}

static int library_init(PyObject *object, PyObject *arguments, PyObject *keywords)
{
    Library *self = (Library *)object;
    static char *names[] = {"functions", "comm", "byte", "spins", NULL};
    PyObject *functions;
    Py_ssize_t comm, byte;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "O!nnl", names, &PyDict_Type, &functions,
                                     &comm, &byte, &self->spins))
        return -1;
    self->comm = *(handle *)comm;
    self->byte = *(handle *)byte;
    self->isend = (post_function)address(functions, "MPI_Isend");
    self->irecv = (post_function)address(functions, "MPI_Irecv");
    self->test = (test_function)address(functions, "MPI_Test");
    self->probe = (probe_function)address(functions, "MPI_Iprobe");
    self->error_string = (string_function)address(functions, "MPI_Error_string");
    return PyErr_Occurred() ? -1 : 0;
}

/* Let other ranks have the core now and then. */
static void pause_after(Library *mpi, long *polls)
{
    if (++*polls >= mpi->spins) {
        sched_yield();
        *polls = 0;
    }
}

/* Poll one request until it is complete. MPICH's own wait yields at once, and a test returns the
 * request's error itself. */
static int complete(Library *mpi, handle *request)
{
    for (long polls = 0;; pause_after(mpi, &polls)) {
        int done = 0;
        int code = mpi->test(request, &done, status);
        if (code || done)
            return code;
    }
}

/* Any call to MPI makes progress; this one does nothing else. */
static int progress(Library *mpi)
{
    int found;
    return mpi->probe(0, 0, mpi->comm, &found, status);
}

/* ---- What can be called and timed ----------------------------------------------------------- */

/* The common part of programs and collectives. `at` is read by the watchdog's thread. */
typedef struct call {
    PyObject_HEAD
    int (*run)(struct call *);
    Library *mpi;
    volatile Py_ssize_t at;
} Call;

static PyObject *failed(Call *call, int code)
{
    char text[1024] = "";
    int length = 0;
    call->mpi->error_string(code, text, &length);
    PyObject *value = Py_BuildValue("ns", call->at, text);
    if (value) {
        PyErr_SetObject(PyExc_RuntimeError, value);
        Py_DECREF(value);
    }
    return NULL;
}

static PyObject *call_once(PyObject *object, PyObject *Py_UNUSED(ignored))
{
    Call *call = (Call *)object;
    int code;
    Py_BEGIN_ALLOW_THREADS
    code = call->run(call);
    Py_END_ALLOW_THREADS
    if (code)
        return failed(call, code);
    Py_RETURN_NONE;
}

static PyObject *call_at(PyObject *object, void *Py_UNUSED(closure))
{
    return PyLong_FromSsize_t(((Call *)object)->at);
}

static PyMethodDef call_methods[] = {
    {"run", call_once, METH_NOARGS, "Perform the call once."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef call_members[] = {
    {"at", call_at, NULL, "The instruction that the call is at.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

/* ---- Programs: plans with addresses --------------------------------------------------------- */

enum { SEND, RECEIVE, WAIT, REDUCE, WAIT_REDUCE, COPY, SCALE, CONVERT_IN, CONVERT_OUT, PROBE };
enum { COLUMNS = 11 };

/* Sends that are posted and not complete, at most: with 128 of them to one neighbour Open MPI 5.0.11
 * never completes some (through its single-copy path). The others wait in line and are posted while
 * this rank waits for anything, so the limit can't make ranks wait for each other. */
enum { IN_FLIGHT = 32 };

/* Spaces from this one on have the caller's elements, which partial results may be wider than. */
enum { USER = 3 };

/* Rows of the table: operation, slot, peer, tag, then space and byte offset of the target and of
 * two sources, and a length: bytes for messages and copies, elements for the others. */
typedef struct {
    int operation, slot, peer, tag;
    char *into;
    const char *left, *right;
    size_t length;
    int narrow_into, narrow_left, narrow_right; /* of a reduction: has the caller's elements */
} Step;

typedef struct {
    Call call;
    Step *steps;
    Py_ssize_t count;
    handle *requests;
    const Step **sends; /* of this run: issued so far, of them posted, of them complete */
    Py_ssize_t issued, posted, finished;
    Py_ssize_t *owner; /* per slot: which send has it, RECEIVED or FREE */
    kernel reduce;
    scaler scale;
    converter widen, narrow;
    double divisor;
    size_t wide_bytes, narrow_bytes; /* of an element */
    char *chunks; /* room for three of CHUNK partial results, for reductions of the caller's */
} Program;

enum { CHUNK = 256 }; /* so that three of the widest stay in the first cache */

enum { FREE = -1, RECEIVED = -2 };

static int post_allowed(Program *self)
{
    Library *mpi = self->call.mpi;
    int code = 0;
    while (!code && self->posted < self->issued && self->posted - self->finished < IN_FLIGHT) {
        const Step *step = self->sends[self->posted++];
        code = mpi->isend(step->left, (int)step->length, mpi->byte, step->peer, step->tag,
                          mpi->comm, &self->requests[step->slot]);
    }
    return code;
}

/* Note which of the posted sends are complete, in their order, and post what the limit allows. */
static int advance(Program *self)
{
    int code = 0, done = 1;
    while (self->finished < self->posted && done && !code) {
        int slot = self->sends[self->finished]->slot;
        if (self->owner[slot] == self->finished) { /* else it was waited for */
            code = self->call.mpi->test(&self->requests[slot], &done, status);
            if (done)
                self->owner[slot] = FREE;
        }
        self->finished += done;
    }
    return code ? code : post_allowed(self);
}

static int send(Program *self, const Step *step)
{
    self->owner[step->slot] = self->issued;
    self->sends[self->issued++] = step;
    return self->posted - self->finished < IN_FLIGHT ? post_allowed(self) : advance(self);
}

/* Poll the message in a slot. While it isn't complete, see to the sends: the short ones are complete
 * by now, and later needn't be asked for. */
static int wait(Program *self, int slot)
{
    Library *mpi = self->call.mpi;
    for (long polls = 0; self->owner[slot] != FREE; pause_after(mpi, &polls)) {
        int code = 0, done = 0;
        if (self->owner[slot] < self->posted) /* else it stands in line and has no request */
            code = mpi->test(&self->requests[slot], &done, status);
        if (done)
            self->owner[slot] = FREE;
        else if (!code && self->finished < self->issued)
            code = advance(self);
        if (code || done)
            return code;
    }
    return 0;
}

/* Return one of the chunks, which begin where lines of the cache do. */
static char *chunk_of(Program *self, size_t number)
{
    const uintptr_t first = ((uintptr_t)self->chunks + LINE - 1) / LINE * LINE;
    return (char *)first + number * CHUNK * self->wide_bytes;
}

static const char *operand(Program *self, const char *from, int narrow, size_t at, size_t count,
                           char *chunk)
{
    if (!narrow)
        return from + at * self->wide_bytes;
    self->widen(chunk, from + at * self->narrow_bytes, count);
    return chunk;
}

/* Reduce; what is the caller's is converted some elements at a time, in memory that stays near. */
static void reduce_step(Program *self, const Step *step)
{
    if (!(step->narrow_into || step->narrow_left || step->narrow_right)) {
        self->reduce(step->into, step->left, step->right, step->length);
        return;
    }
    for (size_t at = 0; at < step->length; at += CHUNK) {
        const size_t count = step->length - at < CHUNK ? step->length - at : CHUNK;
        const char *left =
            operand(self, step->left, step->narrow_left, at, count, chunk_of(self, 0));
        const char *right =
            operand(self, step->right, step->narrow_right, at, count, chunk_of(self, 1));
        char *into =
            step->narrow_into ? chunk_of(self, 2) : step->into + at * self->wide_bytes;
        self->reduce(into, left, right, count);
        if (step->narrow_into)
            self->narrow(step->into + at * self->narrow_bytes, into, count);
    }
}

static int run_step(Program *self, const Step *step)
{
    Library *mpi = self->call.mpi;
    int code = 0;
    switch (step->operation) {
    case SEND:
        return send(self, step);
    case RECEIVE:
        self->owner[step->slot] = RECEIVED;
        return mpi->irecv(step->into, (int)step->length, mpi->byte, step->peer, step->tag,
                          mpi->comm, &self->requests[step->slot]);
    case WAIT:
        return wait(self, step->slot);
    case WAIT_REDUCE:
        code = wait(self, step->slot);
        if (code)
            return code;
        /* fall through */
    case REDUCE:
        reduce_step(self, step);
        return 0;
    case COPY:
        copy_bytes(step->into, step->left, step->length);
        return 0;
    case SCALE:
        self->scale(step->into, self->divisor, step->length);
        return 0;
    case CONVERT_IN:
        self->widen(step->into, step->left, step->length);
        return 0;
    case CONVERT_OUT:
        self->narrow(step->into, step->left, step->length);
        return 0;
    default:
        return progress(mpi);
    }
}

static int run_program(Call *call)
{
    Program *self = (Program *)call;
    self->issued = self->posted = self->finished = 0;
    for (Py_ssize_t i = 0; i < self->count; i++) {
        call->at = i;
        int code = run_step(self, &self->steps[i]);
        if (code)
            return code;
    }
    return 0;
}

/* Tell whether a row names what isn't there: an operation, a slot, a space, a kernel. */
static int malformed(const Program *self, const int64_t *row, Py_ssize_t slots, Py_ssize_t spaces)
{
    for (int space = 4; space < 10; space += 2)
        if (row[space] < 0 || row[space] >= spaces || row[space + 1] < 0)
            return 1;
    if (row[10] < 0)
        return 1;
    int slot = row[1] >= 0 && row[1] < slots;
    int converts = row[4] >= USER || row[6] >= USER || row[8] >= USER;
    int reduces = self->reduce && (!converts || (self->widen && self->narrow));
    switch (row[0]) {
    case SEND:
    case RECEIVE:
        return !slot || row[10] > INT_MAX;
    case WAIT:
        return !slot;
    case WAIT_REDUCE:
        return !slot || !reduces;
    case REDUCE:
        return !reduces;
    case COPY:
    case PROBE:
        return 0;
    case SCALE:
        return !self->scale;
    case CONVERT_IN:
        return !self->widen;
    case CONVERT_OUT:
        return !self->narrow;
    default:
        return 1;
    }
}

static int fill_steps(Program *self, const int64_t *table, Py_ssize_t slots, PyObject *spaces)
{
    char *bases[8];
    Py_ssize_t known = PyTuple_Size(spaces);
    if (known < 0 || known > 8)
        return -1;
    for (Py_ssize_t i = 0; i < known; i++)
        bases[i] = PyLong_AsVoidPtr(PyTuple_GetItem(spaces, i));
    for (Py_ssize_t i = 0; i < self->count; i++) {
        const int64_t *row = table + i * COLUMNS;
        if (malformed(self, row, slots, known))
            return -1;
        self->steps[i] = (Step){
            .operation = (int)row[0],
            .slot = (int)row[1],
            .peer = (int)row[2],
            .tag = (int)row[3],
            .into = bases[row[4]] + row[5],
            .left = bases[row[6]] + row[7],
            .right = bases[row[8]] + row[9],
            .length = (size_t)row[10],
            .narrow_into = row[4] >= USER,
            .narrow_left = row[6] >= USER,
            .narrow_right = row[8] >= USER,
        };
    }
    return PyErr_Occurred() ? -1 : 0; /* a space's address that is none */
}

static int program_init(PyObject *object, PyObject *arguments, PyObject *keywords)
{
    Program *self = (Program *)object;
    static char *names[] = {"library", "table", "slots", "spaces", "dtype", "operator",
                            "narrow", "divisor", "itemsizes", NULL};
    PyObject *library, *spaces;
    Py_buffer table;
    Py_ssize_t slots, wide_bytes, narrow_bytes;
    const char *dtype, *operator, *narrow = NULL;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "Oy*nO!sszd(nn)", names, &library,
                                     &table, &slots, &PyTuple_Type, &spaces, &dtype, &operator,
                                     &narrow, &self->divisor, &wide_bytes, &narrow_bytes))
        return -1;
    self->wide_bytes = (size_t)wide_bytes;
    self->narrow_bytes = (size_t)narrow_bytes;
    Py_INCREF(library);
    self->call.mpi = (Library *)library;
    self->call.run = run_program;
    self->reduce = find_kernel(dtype, operator);
    self->scale = find_scaler(dtype);
    self->widen = narrow ? find_converter(narrow, dtype) : NULL;
    self->narrow = narrow ? find_converter(dtype, narrow) : NULL;
    self->count = table.len / (Py_ssize_t)(COLUMNS * sizeof(int64_t));
    self->steps = PyMem_Calloc((size_t)self->count + 1, sizeof(Step));
    self->sends = PyMem_Calloc((size_t)self->count + 1, sizeof(Step *));
    self->requests = slots < 0 ? NULL : PyMem_Calloc((size_t)slots + 1, sizeof(handle));
    self->owner = slots < 0 ? NULL : PyMem_Calloc((size_t)slots + 1, sizeof(Py_ssize_t));
    self->chunks = narrow ? PyMem_Malloc(3 * CHUNK * self->wide_bytes + LINE) : NULL;
    int wrong = !self->steps || !self->sends || !self->requests || !self->owner ||
                (narrow && !self->chunks) ||
                table.len % (COLUMNS * sizeof(int64_t)) ||
                fill_steps(self, table.buf, slots, spaces);
    PyBuffer_Release(&table);
    if (wrong && !PyErr_Occurred())
        PyErr_SetString(PyExc_ValueError, "a row of the table is malformed");
    return wrong ? -1 : 0;
}

static void program_free(PyObject *object)
{
    Program *self = (Program *)object;
    PyTypeObject *type = Py_TYPE(object);
    PyMem_Free(self->steps);
    PyMem_Free(self->sends);
    PyMem_Free(self->requests);
    PyMem_Free(self->owner);
    PyMem_Free(self->chunks);
    Py_XDECREF(self->call.mpi);
    type->tp_free(object);
    Py_DECREF(type);
}

/* ---- The library's own collectives ---------------------------------------------------------- */

/* A function of MPI with its arguments. These are all integers or pointers, and the calling
 * conventions of x86-64 and aarch64 pass each as a word, so that one type of function serves all
 * collectives, those with large counts included; words that a function doesn't take are ignored. */
enum { WORDS = 12 };
typedef int (*collective_function)(intptr_t, intptr_t, intptr_t, intptr_t, intptr_t, intptr_t,
                                   intptr_t, intptr_t, intptr_t, intptr_t, intptr_t, intptr_t);

typedef struct {
    Call call;
    collective_function function;
    intptr_t words[WORDS];
    scaler scale;
    void *result;
    size_t scaled; /* elements of the result that are divided: MPI has no average */
    double divisor;
} Collective;

static int run_collective(Call *call)
{
    Collective *self = (Collective *)call;
    const intptr_t *w = self->words;
    int code = self->function(w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7], w[8], w[9], w[10],
                              w[11]);
    if (!code && self->scaled)
        self->scale(self->result, self->divisor, self->scaled);
    return code;
}

static int collective_init(PyObject *object, PyObject *arguments, PyObject *keywords)
{
    Collective *self = (Collective *)object;
    static char *names[] = {"library", "function", "words", "dtype", "result", "scaled", "divisor",
                            NULL};
    PyObject *library;
    Py_ssize_t function, result, scaled;
    Py_buffer words;
    const char *dtype;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "Ony*snnd", names, &library, &function,
                                     &words, &dtype, &result, &scaled, &self->divisor))
        return -1;
    Py_INCREF(library);
    self->call.mpi = (Library *)library;
    self->call.run = run_collective;
    self->function = (collective_function)function;
    self->result = (void *)result;
    self->scaled = (size_t)scaled;
    self->scale = find_scaler(dtype);
    int fits = words.len <= (Py_ssize_t)sizeof self->words;
    if (fits)
        memcpy(self->words, words.buf, (size_t)words.len);
    PyBuffer_Release(&words);
    if (!fits || (self->scaled && !self->scale)) {
        PyErr_Format(PyExc_ValueError, fits ? "no division of %s" : "too many words", dtype);
        return -1;
    }
    return 0;
}

/* The library's way to an operator that MPI hasn't: an MPI_User_function, `both` = from op both. */
static void reduce_matrices(void *from, void *both, int *count, void *Py_UNUSED(datatype))
{
    static kernel reduce;
    if (!reduce)
        reduce = find_kernel("uint64", "matmul2x2");
    reduce(both, from, both, (size_t)*count);
}

static PyObject *user_function(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    return PyLong_FromVoidPtr((void *)reduce_matrices);
}

static void collective_free(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    Py_XDECREF(((Collective *)object)->call.mpi);
    type->tp_free(object);
    Py_DECREF(type);
}

/* ---- The barrier ---------------------------------------------------------------------------- */

/* Within a node, ranks raise flags in shared memory; every flag has a line of its own and one
 * writer. Node leaders exchange empty messages. Both disseminate: in round k rank r signals rank
 * r + 2**k, so all leave at about the same time (Hensgen, Finkel, Manber 1988,
 * doi:10.1007/BF01379320). */
enum { ROUNDS = 16, GATHER = 14, RELEASE = 15 };

typedef struct {
    PyObject_HEAD
    Library *mpi;
    char *flags;
    int rank, size; /* within the node */
    int leaders, place; /* number of nodes, and this node's */
    int *ranks;         /* of the leaders */
    int64_t epoch;
} Barrier;

static int64_t *flag(Barrier *self, int rank, int round)
{
    return (int64_t *)(self->flags + LINE * (rank * ROUNDS + round));
}

static void raise_flag(Barrier *self, int rank, int round)
{
    __atomic_store_n(flag(self, rank, round), self->epoch, __ATOMIC_RELEASE);
}

static void await_flag(Barrier *self, int rank, int round)
{
    int64_t *mine = flag(self, rank, round);
    long polls = 0;
    while (__atomic_load_n(mine, __ATOMIC_ACQUIRE) < self->epoch) {
        pause_after(self->mpi, &polls);
        /* The awaited rank may still be inside an MPI call that needs this rank's progress: what was
         * sent last may lie here. */
        if (!polls)
            progress(self->mpi);
    }
}

static int meet_leaders(Barrier *self)
{
    Library *mpi = self->mpi;
    for (int distance = 1; distance < self->leaders; distance *= 2) {
        int to = self->ranks[(self->place + distance) % self->leaders];
        int from = self->ranks[(self->place + self->leaders - distance) % self->leaders];
        handle requests[2];
        char nothing;
        int code = mpi->irecv(&nothing, 0, mpi->byte, from, 0, mpi->comm, &requests[0]);
        if (!code)
            code = mpi->isend(&nothing, 0, mpi->byte, to, 0, mpi->comm, &requests[1]);
        if (!code)
            code = complete(mpi, &requests[0]);
        if (!code)
            code = complete(mpi, &requests[1]);
        if (code)
            return code;
    }
    return 0;
}

static int pass(Barrier *self)
{
    int code = 0;
    self->epoch++;
    if (self->leaders == 1) {
        for (int round = 0, distance = 1; distance < self->size; round++, distance *= 2) {
            raise_flag(self, (self->rank + distance) % self->size, round);
            await_flag(self, self->rank, round);
        }
    } else if (self->rank) {
        raise_flag(self, self->rank, GATHER);
        await_flag(self, 0, RELEASE);
    } else {
        for (int rank = 1; rank < self->size; rank++)
            await_flag(self, rank, GATHER);
        code = meet_leaders(self);
        raise_flag(self, 0, RELEASE);
    }
    return code;
}

static PyObject *barrier_pass(PyObject *object, PyObject *Py_UNUSED(ignored))
{
    int code;
    Py_BEGIN_ALLOW_THREADS
    code = pass((Barrier *)object);
    Py_END_ALLOW_THREADS
    if (code)
        return PyErr_Format(PyExc_RuntimeError, "MPI error %d in the barrier", code);
    Py_RETURN_NONE;
}

static PyMethodDef barrier_methods[] = {
    {"wait", barrier_pass, METH_NOARGS, "Wait for all ranks."},
    {NULL, NULL, 0, NULL},
};

static int barrier_init(PyObject *object, PyObject *arguments, PyObject *keywords)
{
    Barrier *self = (Barrier *)object;
    static char *names[] = {"library", "flags", "rank", "size", "place", "leaders", NULL};
    PyObject *library;
    Py_ssize_t flags;
    Py_buffer leaders;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "Oniiiy*", names, &library, &flags,
                                     &self->rank, &self->size, &self->place, &leaders))
        return -1;
    Py_INCREF(library);
    self->mpi = (Library *)library;
    self->flags = (char *)flags;
    self->leaders = (int)(leaders.len / (Py_ssize_t)sizeof(int));
    self->ranks = PyMem_Malloc((size_t)leaders.len + 1);
    if (self->ranks)
        memcpy(self->ranks, leaders.buf, (size_t)leaders.len);
    PyBuffer_Release(&leaders);
    return self->ranks ? 0 : (PyErr_NoMemory(), -1);
}

static void barrier_free(PyObject *object)
{
    Barrier *self = (Barrier *)object;
    PyTypeObject *type = Py_TYPE(object);
    PyMem_Free(self->ranks);
    Py_XDECREF(self->mpi);
    type->tp_free(object);
    Py_DECREF(type);
}

/* ---- The timed loop ------------------------------------------------------------------------- */

/* What an application does between two calls: it writes its input anew and reads its result.
 * Without that, the peer's input stays in this rank's cache, and direct reads look too fast. Then
 * the caches may be filled with something else. */
typedef struct {
    uint64_t *input, *output, *evict;
    size_t input_words, output_words, evict_words;
    int in_place;
} Touch;

static volatile uint64_t zero, sink;

static void touch(const Touch *buffers)
{
    uint64_t nothing = zero, sum = 0;
    for (size_t i = 0; i < buffers->output_words; i++)
        sum += buffers->output[i];
    sink = sum;
    if (buffers->in_place) /* written anew, or the values would grow from call to call */
        memset(buffers->output, 0, buffers->output_words * sizeof(uint64_t));
    for (size_t i = 0; i < buffers->input_words; i++)
        buffers->input[i] ^= nothing;
    for (size_t i = 0; i < buffers->evict_words; i += 8) /* once per line */
        buffers->evict[i]++;
}

static void until(double moment)
{
    while (now() < moment)
        ;
}

/* How each of `count` calls begins and ends. */
typedef struct {
    Call *call;
    Barrier *barrier;             /* or NULL: back to back */
    const double *starts, *delays; /* or NULL: start at a time; or late by so much */
    const Touch *touch;
    double *begins, *ends;
    Py_ssize_t count;
} Sampling;

static int take_samples(const Sampling *s)
{
    for (Py_ssize_t i = 0; i < s->count; i++) {
        int code = 0;
        touch(s->touch);
        if (s->barrier)
            code = pass(s->barrier);
        if (s->starts)
            until(s->starts[i]);
        if (s->delays)
            until(now() + s->delays[i]);
        s->begins[i] = now();
        if (!code)
            code = s->call->run(s->call);
        s->ends[i] = now();
        if (code)
            return code;
    }
    return 0;
}

/* Doubles of an optional buffer argument, NULL for None; -1 if it is too short. */
static int doubles(PyObject *argument, Py_ssize_t count, Py_buffer *buffer, double **data)
{
    *data = NULL;
    buffer->obj = NULL;
    if (argument == Py_None)
        return 0;
    if (PyObject_GetBuffer(argument, buffer, PyBUF_WRITABLE) < 0)
        return -1;
    *data = buffer->buf;
    if (buffer->len < count * (Py_ssize_t)sizeof(double)) {
        PyErr_SetString(PyExc_ValueError, "a buffer is too short");
        return -1;
    }
    return 0;
}

static PyObject *sample(PyObject *Py_UNUSED(module), PyObject *arguments, PyObject *keywords)
{
    static char *names[] = {"call", "barrier", "count", "begins", "ends", "starts", "delays",
                            "touch", NULL};
    PyObject *call, *barrier, *given[4];
    Py_ssize_t count, input, input_bytes, output, output_bytes, evict, evict_bytes;
    int in_place;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "OOnOOOO(nnnnnnp)", names, &call,
                                     &barrier, &count, &given[0], &given[1], &given[2], &given[3],
                                     &input, &input_bytes, &output, &output_bytes, &evict,
                                     &evict_bytes, &in_place))
        return NULL;
    Py_buffer buffers[4] = {{0}};
    double *data[4];
    int code = -1, wrong = 0;
    for (int i = 0; i < 4; i++)
        wrong = wrong || doubles(given[i], count, &buffers[i], &data[i]);
    if (!wrong && !(data[0] && data[1])) {
        PyErr_SetString(PyExc_ValueError, "begins and ends are needed");
        wrong = 1;
    }
    if (!wrong) {
        Touch touched = {(uint64_t *)input,        (uint64_t *)output,
                         (uint64_t *)evict,        (size_t)input_bytes / 8,
                         (size_t)output_bytes / 8, (size_t)evict_bytes / 8,
                         in_place};
        Sampling sampling = {(Call *)call,
                             barrier == Py_None ? NULL : (Barrier *)barrier,
                             data[2],
                             data[3],
                             &touched,
                             data[0],
                             data[1],
                             count};
        Py_BEGIN_ALLOW_THREADS
        code = take_samples(&sampling);
        Py_END_ALLOW_THREADS
    }
    for (int i = 0; i < 4; i++)
        if (buffers[i].obj)
            PyBuffer_Release(&buffers[i]);
    if (wrong)
        return NULL;
    if (code)
        return failed((Call *)call, code);
    Py_RETURN_NONE;
}

/* ---- Clocks and the machine's state --------------------------------------------------------- */

/* Exchange times with a peer `count` times. The client notes, per exchange, when it sent, what the
 * server's clock said, and when the answer came. */
static PyObject *ping_pong(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    PyObject *library;
    int peer, client, code = 0;
    Py_buffer times;
    if (!PyArg_ParseTuple(arguments, "Oipw*", &library, &peer, &client, &times))
        return NULL;
    Library *mpi = (Library *)library;
    double *out = times.buf;
    Py_ssize_t count = times.len / (Py_ssize_t)(3 * sizeof(double));
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t i = 0; i < count && !code; i++) {
        handle request;
        double sent = now(), theirs = 0;
        if (client)
            code = mpi->isend(&sent, sizeof sent, mpi->byte, peer, 0, mpi->comm, &request);
        else
            code = mpi->irecv(&theirs, sizeof theirs, mpi->byte, peer, 0, mpi->comm, &request);
        code = code ? code : complete(mpi, &request);
        double reply = now();
        if (code)
            break;
        if (client)
            code = mpi->irecv(&theirs, sizeof theirs, mpi->byte, peer, 0, mpi->comm, &request);
        else
            code = mpi->isend(&reply, sizeof reply, mpi->byte, peer, 0, mpi->comm, &request);
        code = code ? code : complete(mpi, &request);
        out[3 * i] = sent;
        out[3 * i + 1] = theirs;
        out[3 * i + 2] = now();
    }
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&times);
    if (code)
        return PyErr_Format(PyExc_RuntimeError, "MPI error %d in a ping-pong", code);
    Py_RETURN_NONE;
}

/* Time a fixed number of dependent multiplications: how fast the core is at the moment. */
static PyObject *spin(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    uint64_t value = zero + 1;
    double begin = now();
    for (int i = 0; i < 2000; i++)
        value = value * 6364136223846793005u + 1442695040888963407u;
    double end = now();
    sink = value;
    return PyFloat_FromDouble(end - begin);
}

/* ---- The module ----------------------------------------------------------------------------- */

#define SLOT(id, value) {id, (void *)(value)}
#define TYPE(variable, text, size, ...)                                                            \
    static PyType_Slot variable##_slots[] = {SLOT(Py_tp_new, PyType_GenericNew), __VA_ARGS__,      \
                                             {0, NULL}};                                           \
    static PyType_Spec variable = {text, size, 0, Py_TPFLAGS_DEFAULT, variable##_slots}

TYPE(library_type, "hpccoll.Library", sizeof(Library), SLOT(Py_tp_init, library_init));
TYPE(program_type, "hpccoll.Program", sizeof(Program), SLOT(Py_tp_init, program_init),
     SLOT(Py_tp_dealloc, program_free), SLOT(Py_tp_methods, call_methods),
     SLOT(Py_tp_getset, call_members));
TYPE(collective_type, "hpccoll.Collective", sizeof(Collective), SLOT(Py_tp_init, collective_init),
     SLOT(Py_tp_dealloc, collective_free), SLOT(Py_tp_methods, call_methods),
     SLOT(Py_tp_getset, call_members));
TYPE(barrier_type, "hpccoll.Barrier", sizeof(Barrier), SLOT(Py_tp_init, barrier_init),
     SLOT(Py_tp_dealloc, barrier_free), SLOT(Py_tp_methods, barrier_methods));

static PyMethodDef functions[] = {
    {"sample", (PyCFunction)(void (*)(void))sample, METH_VARARGS | METH_KEYWORDS,
     "Make calls and note when each began and ended."},
    {"ping_pong", ping_pong, METH_VARARGS, "Exchange clock readings with a peer."},
    {"user_function", user_function, METH_NOARGS, "Return the address of matmul2x2 for MPI."},
    {"spin", spin, METH_NOARGS, "Time a fixed amount of arithmetic."},
    {NULL, NULL, 0, NULL},
};

static int fill_module(PyObject *module)
{
    PyType_Spec *specs[] = {&library_type, &program_type, &collective_type, &barrier_type};
    const char *names[] = {"Library", "Program", "Collective", "Barrier"};
    for (int i = 0; i < 4; i++) {
        PyObject *type = PyType_FromSpec(specs[i]);
        if (!type || PyModule_AddObject(module, names[i], type) < 0)
            return -1;
    }
    return 0;
}

static PyModuleDef_Slot module_slots[] = {SLOT(Py_mod_exec, fill_module), {0, NULL}};

#define TEXT_(name) #name
#define TEXT(name) TEXT_(name)
#define INIT_(name) PyInit_##name
#define INIT(name) INIT_(name)

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, TEXT(MODULE), "The native engine.", 0, functions, module_slots,
    NULL, NULL, NULL,
};

PyMODINIT_FUNC INIT(MODULE)(void)
{
    return PyModuleDef_Init(&module);
}
