/* The module tensorflowonspark._native: what its types have in common, and its parts. */
#include "_native.h"

#include <stdio.h>

void *tfos__python_new(PyTypeObject *type)
{
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    return allocate(type, 0);
}

/* Objects of heap types hold a reference to their type. */
void tfos__python_free(void *self)
{
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF(type);
}

int tfos__python_add_type(PyObject *module, const char *name, size_t bytes, PyType_Slot *slots, bool callable,
                          PyTypeObject **out)
{
    char full[128];
    snprintf(full, sizeof full, "tensorflowonspark._native.%s", name);
    unsigned long flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE;
    PyType_Spec spec = {.name = full,
                        .basicsize = (int)bytes,
                        .flags = (unsigned int)(callable ? flags : flags | Py_TPFLAGS_DISALLOW_INSTANTIATION),
                        .slots = slots};
    *out = (PyTypeObject *)PyType_FromSpec(&spec);
    return *out == NULL ? -1 : PyModule_AddObjectRef(module, name, (PyObject *)*out);
}

/* State is in static variables, so the module cannot be loaded into a second interpreter: m_size -1 says so to Python.
 */
static struct PyModuleDef module_definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "tensorflowonspark._native",
    .m_doc = "tfos.h as Python objects; use tensorflowonspark.records and tensorflowonspark.TFCluster.",
    .m_size = -1,
};

PyMODINIT_FUNC PyInit__native(void);

PyMODINIT_FUNC PyInit__native(void)
{
#define ADD(part) tfos__python_add_##part,
    static int (*const add[])(PyObject *) = {TFOS__PYTHON_PART_MAP(ADD)};
#undef ADD
    PyObject *module = PyModule_Create(&module_definition);
    bool good = module != NULL && PyModule_AddStringConstant(module, "version", tfos_version()) == 0;
    for (size_t i = 0; good && i < sizeof add / sizeof add[0]; i++) {
        good = add[i](module) == 0;
    }
    if (!good) {
        Py_CLEAR(module);
    }
    return module;
}
