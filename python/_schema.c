/* Schema: owns a schema of the library. */
#include "_native.h"

static PyTypeObject *schema_type;

typedef struct schema_object {
    PyObject_HEAD
    tfos_schema *schema;
} schema_object;

PyObject *tfos__python_schema_wrap(tfos_schema *schema)
{
    schema_object *self = tfos__python_new(schema_type);
    if (self == NULL) {
        tfos_schema_free(schema);
        return NULL;
    }
    self->schema = schema;
    return (PyObject *)self;
}

PyObject *tfos__python_schema_copy(const tfos_schema *from)
{
    tfos_error error;
    tfos_schema *copy;
    tfos_record_kind kind = tfos_schema_kind(from);
    tfos_status status = tfos_schema_new(kind, &copy, &error);
    if (status != TFOS_OK) {
        return tfos__python_raise(&error);
    }
    status = tfos_schema_set_note(copy, tfos_schema_note(from), &error);
    for (size_t i = 0; kind != TFOS_RECORD_BYTES && i < tfos_schema_field_count(from) && status == TFOS_OK; i++) {
        status = tfos_schema_add(copy, tfos_schema_field(from, i), &error);
    }
    if (status != TFOS_OK) {
        tfos_schema_free(copy);
        return tfos__python_raise(&error);
    }
    return tfos__python_schema_wrap(copy);
}

/* Schema(text): from the JSON form. */
static PyObject *schema_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    (void)type;
    (void)keywords;
    const char *text;
    Py_ssize_t bytes;
    tfos_schema *schema;
    tfos_error error;
    if (!PyArg_ParseTuple(args, "s#:Schema", &text, &bytes)) {
        return NULL;
    }
    if (tfos_schema_from_json(text, (size_t)bytes, &schema, &error) != TFOS_OK) {
        return tfos__python_raise(&error);
    }
    return tfos__python_schema_wrap(schema);
}

/* Schema.from_arrow(capsule), as __arrow_c_schema__ returns it. */
static PyObject *schema_from_arrow(PyObject *unused, PyObject *capsule)
{
    (void)unused;
    tfos_schema *schema;
    tfos_error error;
    const struct ArrowSchema *held = PyCapsule_GetPointer(capsule, TFOS__SCHEMA_CAPSULE);
    if (held == NULL) {
        return NULL;
    }
    if (tfos_schema_import(held, TFOS_RECORD_AUTO, &schema, &error) != TFOS_OK) {
        return tfos__python_raise(&error);
    }
    return tfos__python_schema_wrap(schema);
}

static void schema_dealloc(schema_object *self)
{
    tfos_schema_free(self->schema);
    tfos__python_free(self);
}

static PyObject *schema_to_json(schema_object *self, PyObject *unused)
{
    (void)unused;
    char *text;
    tfos_error error;
    if (tfos_schema_to_json(self->schema, &text, &error) != TFOS_OK) {
        return tfos__python_raise(&error);
    }
    PyObject *result = PyUnicode_FromString(text);
    tfos_string_free(text);
    return result;
}

/* (name, type, shape, nullable, feature_list); the shape is (), (n,) or (None,), as in JSON. */
static PyObject *field_tuple(const tfos_field *field)
{
    PyObject *shape = field->shape == TFOS_SHAPE_SCALAR  ? PyTuple_New(0)
                      : field->shape == TFOS_SHAPE_FIXED ? Py_BuildValue("(i)", (int)field->length)
                                                         : Py_BuildValue("(O)", Py_None);
    return Py_BuildValue("(ssNOO)", field->name, tfos_type_name(field->type), shape,
                         field->nullable ? Py_True : Py_False, field->feature_list ? Py_True : Py_False);
}

static PyObject *schema_fields(schema_object *self, PyObject *unused)
{
    (void)unused;
    size_t count = tfos_schema_field_count(self->schema);
    PyObject *list = PyList_New((Py_ssize_t)count);
    for (size_t i = 0; list != NULL && i < count; i++) {
        PyObject *field = field_tuple(tfos_schema_field(self->schema, i));
        if (field == NULL || PyList_SetItem(list, (Py_ssize_t)i, field) < 0) {
            Py_CLEAR(list);
        }
    }
    return list;
}

static PyObject *schema_compare(PyObject *self, PyObject *other, int operation)
{
    if (Py_TYPE(other) != schema_type || (operation != Py_EQ && operation != Py_NE)) {
        return Py_NewRef(Py_NotImplemented);
    }
    bool equal = tfos_schema_equal(((schema_object *)self)->schema, ((schema_object *)other)->schema);
    return PyBool_FromLong(equal == (operation == Py_EQ));
}

static Py_hash_t schema_hash(schema_object *self)
{
    Py_hash_t hash = (Py_hash_t)tfos_schema_fingerprint(self->schema);
    return hash == -1 ? -2 : hash; /* -1 says that there is an exception */
}

static PyObject *schema_record(schema_object *self, void *unused)
{
    (void)unused;
    return PyUnicode_FromString(tfos_record_kind_name(tfos_schema_kind(self->schema)));
}

PyObject *tfos__python_schema_capsule(const tfos_schema *schema)
{
    tfos_error error;
    struct ArrowSchema *held;
    PyObject *capsule = tfos__python_schema_capsule_new(&held);
    if (capsule != NULL && tfos_schema_export(schema, held, &error) != TFOS_OK) {
        Py_DECREF(capsule);
        return tfos__python_raise(&error);
    }
    return capsule;
}

static PyObject *schema_arrow(schema_object *self, PyObject *unused)
{
    (void)unused;
    return tfos__python_schema_capsule(self->schema);
}

static PyType_Slot schema_slots[] = {
    {Py_tp_new, schema_new},
    {Py_tp_dealloc, schema_dealloc},
    {Py_tp_richcompare, schema_compare},
    {Py_tp_hash, schema_hash},
    {Py_tp_methods, (PyMethodDef[]){{"from_arrow", schema_from_arrow, METH_O | METH_STATIC, NULL},
                                    {"to_json", (PyCFunction)schema_to_json, METH_NOARGS, NULL},
                                    {"fields", (PyCFunction)schema_fields, METH_NOARGS, NULL},
                                    {"__arrow_c_schema__", (PyCFunction)schema_arrow, METH_NOARGS, NULL},
                                    {0}}},
    {Py_tp_getset, (PyGetSetDef[]){{.name = "record", .get = (getter)schema_record}, {0}}},
    {0, NULL},
};

const tfos_schema *tfos__python_schema_of(PyObject *object)
{
    if (!PyObject_TypeCheck(object, schema_type)) {
        PyErr_SetString(PyExc_TypeError, "expected a Schema");
        return NULL;
    }
    return ((schema_object *)object)->schema;
}

int tfos__python_add_schema(PyObject *module)
{
    return tfos__python_add_type(module, "Schema", sizeof(schema_object), schema_slots, true, &schema_type);
}
