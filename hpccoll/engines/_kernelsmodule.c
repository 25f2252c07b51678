/* The kernels by themselves, for their tests and their benchmark. */
#define _GNU_SOURCE
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <time.h>

#include "_kernels.h"

/* into = left op right on buffers: the kernels alone, for their tests and benchmark. Returns the
 * seconds of `repeat` calls. */
static PyObject *reduce(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    const char *dtype, *operator;
    Py_ssize_t into, left, right, count;
    long repeat;
    if (!PyArg_ParseTuple(arguments, "ssnnnnl", &dtype, &operator, &into, &left, &right, &count,
                          &repeat))
        return NULL;
    kernel chosen = find_kernel(dtype, operator);
    if (!chosen)
        return PyErr_Format(PyExc_ValueError, "%s isn't defined for %s", operator, dtype);
    double seconds;
    Py_BEGIN_ALLOW_THREADS
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (long i = 0; i < repeat; i++)
        chosen((void *)into, (const void *)left, (const void *)right, (size_t)count);
    clock_gettime(CLOCK_MONOTONIC, &end);
    seconds = (double)(end.tv_sec - begin.tv_sec) + 1e-9 * (double)(end.tv_nsec - begin.tv_nsec);
    Py_END_ALLOW_THREADS
    return PyFloat_FromDouble(seconds);
}

static PyObject *convert(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    const char *from, *to;
    Py_ssize_t into, source, count;
    if (!PyArg_ParseTuple(arguments, "ssnnn", &from, &to, &into, &source, &count))
        return NULL;
    converter chosen = find_converter(from, to);
    if (!chosen)
        return PyErr_Format(PyExc_ValueError, "%s isn't converted to %s", from, to);
    chosen((void *)into, (const void *)source, (size_t)count);
    Py_RETURN_NONE;
}

static PyObject *target(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    const char *name = NULL;
    if (!PyArg_ParseTuple(arguments, "|z", &name))
        return NULL;
    if (name && !select_target(name))
        return PyErr_Format(PyExc_ValueError, "no instruction set %s here", name);
    return PyUnicode_FromString(kernel_target());
}

static PyMethodDef functions[] = {
    {"reduce", reduce, METH_VARARGS, "Run a reduction kernel on addresses."},
    {"convert", convert, METH_VARARGS, "Run a converter on addresses."},
    {"target", target, METH_VARARGS, "Return, or choose, the kernels' instruction set."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "_kernels", "The reduction kernels.", 0, functions, NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__kernels(void)
{
    return PyModuleDef_Init(&module);
}
