/* Layers: which output of a signature a layer makes. Keras 3 calls outputs output_0, output_1, …, and a signature says
 * nothing of layers; the names of ops do, which begin with the scopes that layers have opened.
 *
 *   StatefulPartitionedCall_1:0 ─► function ─► Identity ─► … ─► functional_1/digit_1/Softmax
 *
 * tf_keras opens a scope of the layer's own name. Keras 3 opens it twice, to build and to call the layer, and
 * TensorFlow puts a number behind every name but the first: the ops of `digit` are in digit_1, and if the model also
 * has a layer `digit_1`, either of them may be. So a name fits both the scope of that name and those with a number
 * behind it; if more than one output is left, nothing is guessed. Nor is it where the scope by which a layer is best
 * known (its own name if that has no number, else one with another number behind it) is elsewhere in the function: then
 * the layer is one that makes no output.
 *
 * Field numbers are those of graph.proto, node_def.proto, function.proto, op_def.proto and attr_value.proto. */
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "tensorflow/saved_model_parts.h"

enum { MOST_STEPS = 64, MOST_GRAPHS = 64, MOST_INDEX = 1 << 20 };

/* ---- messages ---- */

static bool is_text(tfos__wire text, const char *expected)
{
    size_t bytes = strlen(expected);
    return (size_t)(text.end - text.at) == bytes && (bytes == 0 || memcmp(text.at, expected, bytes) == 0);
}

static bool is_same(tfos__wire a, tfos__wire b)
{
    size_t bytes = (size_t)(a.end - a.at);
    return (size_t)(b.end - b.at) == bytes && (bytes == 0 || memcmp(a.at, b.at, bytes) == 0);
}

/* One of the fields of a number. */
typedef struct pick {
    uint32_t number;
    uint64_t left; /* of those before it */
    bool found;
    tfos__wire value;
} pick;

static tfos_status take_pick(void *context, const tfos__model_field *field, tfos_error *error)
{
    pick *self = context;
    (void)error;
    if (field->number == self->number && !self->found) {
        self->found = self->left == 0;
        self->value = field->bytes;
        self->left -= self->found ? 0 : 1;
    }
    return TFOS_OK;
}

/* The field of this number that has `index` of them before it. */
static tfos_status pick_field(tfos__wire message, uint32_t number, uint64_t index, pick *out, tfos_error *error)
{
    *out = (pick){.number = number, .left = index};
    return tfos__model_each_field(message, take_pick, out, error);
}

/* The value of a key in a map. */
typedef struct map_search {
    uint32_t number; /* of the map's field */
    tfos__wire key;
    bool found;
    tfos__wire value;
} map_search;

static tfos_status take_map_entry(void *context, const tfos__model_field *field, tfos_error *error)
{
    map_search *self = context;
    pick key;
    pick value;
    if (field->number != self->number || self->found) {
        return TFOS_OK;
    }
    TFOS_TRY(pick_field(field->bytes, 1, 0, &key, error));
    TFOS_TRY(pick_field(field->bytes, 2, 0, &value, error));
    self->found = is_same(key.value, self->key);
    self->value = value.value;
    return TFOS_OK;
}

static tfos_status find_in_map(tfos__wire message, uint32_t number, tfos__wire key, map_search *out, tfos_error *error)
{
    *out = (map_search){.number = number, .key = key};
    return tfos__model_each_field(message, take_map_entry, out, error);
}

static tfos__wire wire_of(const char *text)
{
    return (tfos__wire){(const uint8_t *)text, (const uint8_t *)text + strlen(text)};
}

/* ---- graphs ---- */

typedef struct node {
    tfos__wire name;
    tfos__wire op;
    tfos__wire message;
} node;

/* The graph of a model, or a function of it, with its nodes by name. */
typedef struct graph {
    tfos__wire name; /* of the function */
    tfos__wire message;
    node *nodes;
    size_t count;
    size_t capacity;
} graph;

enum { GRAPH_NODE = 1, FUNCTION_NODE = 3 };

typedef struct walk {
    graph graphs[MOST_GRAPHS]; /* that were met, the model's first */
    size_t count;
} walk;

static tfos_status take_node_name(void *context, const tfos__model_field *field, tfos_error *error)
{
    node *self = context;
    (void)error;
    if (field->number == 1) {
        self->name = field->bytes;
    } else if (field->number == 2) {
        self->op = field->bytes;
    }
    return TFOS_OK;
}

static tfos_status add_node(graph *self, tfos__wire message, tfos_error *error)
{
    TFOS_TRY(tfos__array_reserve(&self->nodes, self->count, &self->capacity, sizeof *self->nodes, error));
    self->nodes[self->count] = (node){.message = message};
    return tfos__model_each_field(message, take_node_name, &self->nodes[self->count++], error);
}

static tfos_status take_graph_node(void *context, const tfos__model_field *field, tfos_error *error)
{
    return field->number == GRAPH_NODE ? add_node(context, field->bytes, error) : TFOS_OK;
}

static tfos_status take_function_node(void *context, const tfos__model_field *field, tfos_error *error)
{
    return field->number == FUNCTION_NODE ? add_node(context, field->bytes, error) : TFOS_OK;
}

static int compare_names(const void *a, const void *b)
{
    const tfos__wire *left = &((const node *)a)->name;
    const tfos__wire *right = &((const node *)b)->name;
    size_t left_bytes = (size_t)(left->end - left->at);
    size_t right_bytes = (size_t)(right->end - right->at);
    size_t shared = left_bytes < right_bytes ? left_bytes : right_bytes;
    int order = shared > 0 ? memcmp(left->at, right->at, shared) : 0;
    return order != 0 ? order : (left_bytes > right_bytes) - (left_bytes < right_bytes);
}

/* *out is NULL if the walk has met as many graphs as it can. */
static tfos_status add_graph(walk *self, tfos__wire name, tfos__wire message, tfos__model_field_function take,
                             graph **out, tfos_error *error)
{
    *out = NULL;
    if (self->count == MOST_GRAPHS) {
        return TFOS_OK;
    }
    graph *made = &self->graphs[self->count++];
    *made = (graph){.name = name, .message = message};
    TFOS_TRY(tfos__model_each_field(message, take, made, error));
    if (made->count > 0) {
        qsort(made->nodes, made->count, sizeof *made->nodes, compare_names);
    }
    *out = made;
    return TFOS_OK;
}

static void reset_walk(walk *self)
{
    for (size_t i = 0; i < self->count; i++) {
        free(self->graphs[i].nodes);
    }
}

static const node *find_node(const graph *of, tfos__wire name)
{
    const node wanted = {.name = name};
    return of->count > 0 ? bsearch(&wanted, of->nodes, of->count, sizeof *of->nodes, compare_names) : NULL;
}

/* ---- functions ---- */

typedef struct function_search {
    tfos__wire name;
    bool found;
    tfos__wire message;
} function_search;

static tfos_status look_at_function(void *context, const tfos__model_field *field, tfos_error *error)
{
    function_search *self = context;
    pick signature;
    pick name;
    if (field->number != 1 || self->found) {
        return TFOS_OK;
    }
    TFOS_TRY(pick_field(field->bytes, 1, 0, &signature, error));
    TFOS_TRY(pick_field(signature.value, 1, 0, &name, error));
    self->found = is_same(name.value, self->name);
    self->message = field->bytes;
    return TFOS_OK;
}

static tfos_status look_at_library(void *context, const tfos__model_field *field, tfos_error *error)
{
    return field->number == 2 ? tfos__model_each_field(field->bytes, look_at_function, context, error) : TFOS_OK;
}

/* *out is NULL if the model has no function of this name. */
static tfos_status find_function(walk *self, tfos__wire name, graph **out, tfos_error *error)
{
    for (size_t i = 1; i < self->count; i++) {
        if (is_same(self->graphs[i].name, name)) {
            *out = &self->graphs[i];
            return TFOS_OK;
        }
    }
    function_search search = {.name = name};
    *out = NULL;
    TFOS_TRY(tfos__model_each_field(self->graphs[0].message, look_at_library, &search, error));
    return search.found ? add_graph(self, name, search.message, take_function_node, out, error) : TFOS_OK;
}

/* The name of the function that a node calls: the attribute `f` of an op for calls, or the op itself. */
static tfos_status function_of(const node *call, tfos__wire *out, tfos_error *error)
{
    map_search attribute;
    pick reference;
    pick name;
    *out = call->op;
    if (!is_text(call->op, "PartitionedCall") && !is_text(call->op, "StatefulPartitionedCall")) {
        return TFOS_OK;
    }
    TFOS_TRY(find_in_map(call->message, 5, wire_of("f"), &attribute, error));
    TFOS_TRY(pick_field(attribute.value, 10, 0, &reference, error));
    TFOS_TRY(pick_field(reference.value, 1, 0, &name, error));
    *out = name.value;
    return TFOS_OK;
}

/* ---- the way back ---- */

/* "op:1" in a graph, "op:output:1" in a function. */
typedef struct place {
    tfos__wire name;
    tfos__wire port;
    uint64_t index;
} place;

static place parse_place(tfos__wire text)
{
    place found = {.name = text, .port = {text.end, text.end}};
    size_t bytes = (size_t)(text.end - text.at);
    const uint8_t *first = bytes > 0 ? memchr(text.at, ':', bytes) : NULL;
    if (first == NULL) {
        return found;
    }
    const uint8_t *last = memrchr(text.at, ':', bytes);
    found.name.end = first;
    found.port = (tfos__wire){first < last ? first + 1 : last, last};
    for (const uint8_t *at = last + 1; at < text.end && *at >= '0' && *at <= '9' && found.index < MOST_INDEX; at++) {
        found.index = found.index * 10 + (*at - '0');
    }
    return found;
}

/* Where the function returns what its caller has at this place. */
static tfos_status returned_at(const graph *function, const node *call, const place *at, pick *out, tfos_error *error)
{
    map_search returned;
    pick signature;
    pick argument;
    pick name = {.value = at->port};
    bool is_call = !is_same(call->op, function->name);
    *out = (pick){.found = false};
    if (is_call || at->port.at == at->port.end) {
        TFOS_TRY(pick_field(function->message, 1, 0, &signature, error));
        TFOS_TRY(pick_field(signature.value, 3, at->index, &argument, error));
        TFOS_TRY(pick_field(argument.value, 1, 0, &name, error));
        if (!argument.found) {
            return TFOS_OK;
        }
    }
    TFOS_TRY(find_in_map(function->message, 4, name.value, &returned, error));
    *out = (pick){.found = returned.found, .value = returned.value};
    return TFOS_OK;
}

/* The part of a name in front of its last slash; empty: it is in no scope. */
static tfos__wire scope_of(tfos__wire name)
{
    size_t bytes = (size_t)(name.end - name.at);
    const uint8_t *slash = bytes > 0 ? memrchr(name.at, '/', bytes) : NULL;
    return (tfos__wire){name.at, slash != NULL ? slash : name.at};
}

static tfos_status add_scope(tfos__buffer *path, tfos__wire scope, tfos_error *error)
{
    size_t bytes = (size_t)(scope.end - scope.at);
    if (bytes == 0 || memchr(scope.at, '\0', bytes) != NULL) {
        return bytes == 0 ? TFOS_OK : tfos__model_fail(error);
    }
    TFOS_TRY(path->size > 0 ? tfos__buffer_append(path, "/", 1, error) : TFOS_OK);
    return tfos__buffer_append(path, scope.at, bytes, error);
}

/* One step from a node to what it hands on; *on is false if it is the one that makes the tensor. Only those copies are
 * passed by that are in no scope, which exports add: others are what is left of a layer, of Dropout say. */
static tfos_status step_back(walk *self, graph **in, const node *from, place *at, bool *on, tfos_error *error)
{
    tfos__wire scope = scope_of(from->name);
    graph *function = NULL;
    tfos__wire name;
    pick next;
    *on = false;
    if (is_text(from->op, "Identity") || is_text(from->op, "IdentityN")) {
        TFOS_TRY(pick_field(from->message, 3, is_text(from->op, "IdentityN") ? at->index : 0, &next, error));
        *on = next.found && scope.at == scope.end;
    } else {
        TFOS_TRY(function_of(from, &name, error));
        TFOS_TRY(find_function(self, name, &function, error));
        if (function != NULL) {
            TFOS_TRY(returned_at(function, from, at, &next, error));
            *on = next.found;
        }
    }
    if (*on) {
        *in = function != NULL ? function : *in;
        *at = parse_place(next.value);
    }
    return TFOS_OK;
}

/* The scopes on the way from an output to the op that makes it, as a text, and the graph that has this op. */
static tfos_status scopes_of(walk *self, const tfos__tensor_spec *output, char **out, graph **made_in,
                             tfos_error *error)
{
    tfos__buffer path = {0};
    tfos_status status = TFOS_OK;
    graph *in = &self->graphs[0];
    place at = parse_place(wire_of(output->tensor));
    bool on = true;
    for (int step = 0; step < MOST_STEPS && on && status == TFOS_OK; step++) {
        const node *found = find_node(in, at.name);
        if (found == NULL) {
            break; /* an argument of a function: the output is an input */
        }
        status = add_scope(&path, scope_of(found->name), error);
        status = status == TFOS_OK ? step_back(self, &in, found, &at, &on, error) : status;
    }
    if (status == TFOS_OK) {
        const tfos__wire scopes = path.size > 0 ? (tfos__wire){path.data, path.data + path.size} : (tfos__wire){0};
        status = tfos__model_take_text(scopes, out, error);
    }
    tfos__buffer_reset(&path);
    *made_in = in;
    return status;
}

/* ---- names ---- */

enum { AS_IT_IS = 1, WITH_A_NUMBER = 2 };

/* Whether a text is `stem`, an underscore and a number. */
static bool is_numbered(const uint8_t *text, size_t bytes, size_t stem)
{
    if (stem == 0 || bytes < stem + 2 || text[stem] != '_') {
        return false;
    }
    for (size_t i = stem + 1; i < bytes; i++) {
        if (text[i] < '0' || text[i] > '9') {
            return false;
        }
    }
    return true;
}

static bool has_number(const char *name)
{
    const char *end = strrchr(name, '_');
    return end != NULL && is_numbered((const uint8_t *)name, strlen(name), (size_t)(end - name));
}

/* In which ways the name of a layer is among scopes. */
static unsigned ways_in(tfos__wire scopes, const char *layer)
{
    unsigned ways = 0;
    size_t bytes = strlen(layer);
    while (scopes.at < scopes.end) {
        const uint8_t *slash = memchr(scopes.at, '/', (size_t)(scopes.end - scopes.at));
        const uint8_t *end = slash != NULL ? slash : scopes.end;
        size_t count = (size_t)(end - scopes.at);
        if (count >= bytes && memcmp(scopes.at, layer, bytes) == 0) {
            ways |= count == bytes ? AS_IT_IS : is_numbered(scopes.at, count, bytes) ? WITH_A_NUMBER : 0;
        }
        scopes.at = slash != NULL ? slash + 1 : scopes.end;
    }
    return ways;
}

static bool is_in_graph(const graph *of, const char *layer, unsigned ways)
{
    for (size_t i = 0; i < of->count; i++) {
        if ((ways_in(scope_of(of->nodes[i].name), layer) & ways) != 0) {
            return true;
        }
    }
    return false;
}

/* How a name fits the output that was found last. */
typedef struct fit {
    const graph *in;
    unsigned ways;
} fit;

/* Where an output is made, and whether it may be the layer's. */
static tfos_status look_at_output(walk *self, const tfos__tensor_spec *output, const char *layer,
                                  tfos__layer_search *search, fit *found, tfos_error *error)
{
    graph *in = NULL;
    char **scopes = &search->scopes[search->count];
    TFOS_TRY(scopes_of(self, output, scopes, &in, error));
    unsigned ways = layer[0] != '\0' ? ways_in(wire_of(*scopes), layer) : 0;
    search->may_be[search->count++] = ways != 0;
    if (ways != 0) {
        search->output = output;
        search->fits++;
        *found = (fit){in, ways};
    }
    return TFOS_OK;
}

static tfos_status look_at_outputs(walk *self, const tfos__tensor_specs *outputs, const char *layer,
                                   tfos__layer_search *search, tfos_error *error)
{
    fit found = {0};
    unsigned surest = has_number(layer) ? WITH_A_NUMBER : AS_IT_IS;
    for (size_t i = 0; i < outputs->count; i++) {
        TFOS_TRY(look_at_output(self, &outputs->at[i], layer, search, &found, error));
    }
    if (search->fits == 1 && (found.ways & surest) == 0 && is_in_graph(found.in, layer, surest)) {
        search->fits = 0;
    }
    search->output = search->fits == 1 ? search->output : NULL;
    return TFOS_OK;
}

/* ---- all of it ---- */

static tfos_status take_graph_def(void *context, const tfos__model_field *field, tfos_error *error)
{
    (void)error;
    if (field->number == 2) {
        *(tfos__wire *)context = field->bytes;
    }
    return TFOS_OK;
}

tfos_status tfos__saved_model_find_layer(const tfos__saved_model *model, const tfos__signature *signature,
                                         const char *layer, tfos__layer_search *out, tfos_error *error)
{
    const tfos__tensor_specs *outputs = &signature->outputs;
    tfos__buffer bytes = {0};
    tfos__wire graph_def = {0};
    graph *first = NULL;
    *out = (tfos__layer_search){.may_be = calloc(outputs->count + 1, sizeof *out->may_be),
                                .scopes = calloc(outputs->count + 1, sizeof *out->scopes)};
    walk *self = calloc(1, sizeof *self);
    tfos_status status = out->may_be != NULL && out->scopes != NULL && self != NULL
                             ? tfos__model_each_of_file(model, take_graph_def, &graph_def, &bytes, error)
                             : tfos__fail_memory(error, sizeof *self);
    if (status == TFOS_OK) {
        status = add_graph(self, (tfos__wire){0}, graph_def, take_graph_node, &first, error);
        status = status == TFOS_OK ? look_at_outputs(self, outputs, layer, out, error) : status;
        if (status == TFOS_CORRUPT) {
            tfos__error_prefix(error, "%s/saved_model.pb", model->folder);
        }
    }
    if (self != NULL) {
        reset_walk(self);
    }
    free(self);
    tfos__buffer_reset(&bytes);
    return status;
}

void tfos__layer_search_reset(tfos__layer_search *search)
{
    for (size_t i = 0; search->scopes != NULL && i < search->count; i++) {
        free(search->scopes[i]);
    }
    free(search->scopes);
    free(search->may_be);
    *search = (tfos__layer_search){0};
}
