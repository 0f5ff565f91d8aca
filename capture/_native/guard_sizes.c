/* `("size_check", program)`: a relation between sizes, as a postfix program over int64. `("size_number", dst,
 * program)`: the number that such a program computes, as an int of Python.
 *
 *     (("size", 0), ("int", 3), "lt")        size 0 < 3
 *
 * Division and remainder round to minus infinity, as Python's; overflow and division by zero fail
 * the guard. The value on top at the end is the answer: it must not be zero. */
#include "native.h"

enum { MAX_STACK = 32 };
typedef enum {
    PUSH_SIZE, PUSH_INT, ADD, SUB, MUL, FLOORDIV, MOD, MIN, MAX, LT, LE, GT, GE, EQ, NE, AND, OR, NEG, NOT
} OpCode;

static const struct { const char *name; OpCode op; int pops; } operators[] = {
    {"+", ADD, 2}, {"add", ADD, 2}, {"-", SUB, 2}, {"sub", SUB, 2}, {"*", MUL, 2}, {"mul", MUL, 2},
    {"//", FLOORDIV, 2}, {"floordiv", FLOORDIV, 2}, {"%", MOD, 2}, {"mod", MOD, 2},
    {"min", MIN, 2}, {"max", MAX, 2}, {"<", LT, 2}, {"lt", LT, 2}, {"<=", LE, 2}, {"le", LE, 2},
    {">", GT, 2}, {"gt", GT, 2}, {">=", GE, 2}, {"ge", GE, 2}, {"==", EQ, 2}, {"eq", EQ, 2},
    {"!=", NE, 2}, {"ne", NE, 2}, {"and", AND, 2}, {"or", OR, 2}, {"neg", NEG, 1}, {"not", NOT, 1},
};

typedef struct {
    OpCode op;
    int64_t value;
} Instr;

static int parse_push(Instr *instr, PyObject *item, const Builder *b)
{
    const char *kind;
    long long value;
    if (!PyArg_ParseTuple(item, "sL", &kind, &value)) {
        return -1;
    }
    bool size = kind[0] == 's';
    if (size && (value < 0 || value >= b->nsizes || !b->sized[value])) {
        PyErr_Format(PyExc_ValueError, "size_check: size %lld is read before a step writes it", value);
        return -1;
    }
    *instr = (Instr){size ? PUSH_SIZE : PUSH_INT, value};
    return 1;
}

static int parse_operator(Instr *instr, PyObject *item, int depth)
{
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++) {
        if (PyUnicode_CompareWithASCIIString(item, operators[i].name) == 0 && depth >= operators[i].pops) {
            *instr = (Instr){operators[i].op, 0};
            return 1 - operators[i].pops;
        }
    }
    PyErr_Format(PyExc_ValueError, "size_check: unknown operator or too few operands at %R", item);
    return -MAX_STACK;
}

static int finish_program(Step *s, Builder *b)
{
    PyObject *program = PySequence_Tuple(s->refs[0]);
    if (program == NULL) {
        return -1;
    }
    s->n = PyTuple_GET_SIZE(program);
    Instr *code = s->ext = PyMem_Calloc((size_t)s->n + 1, sizeof(Instr));
    int depth = 0, bad = code == NULL;
    for (Py_ssize_t i = 0; i < s->n && !bad; i++) {
        PyObject *item = PyTuple_GET_ITEM(program, i);
        if (PyTuple_Check(item)) {
            bad = parse_push(&code[i], item, b) < 0;
            depth++;
        }
        else if (PyUnicode_Check(item)) {
            depth += parse_operator(&code[i], item, depth);
        }
        else {
            depth = -MAX_STACK;
        }
        bad = bad || depth <= 0 || depth > MAX_STACK;
    }
    Py_DECREF(program);
    if ((bad || depth != 1) && !PyErr_Occurred()) {
        PyErr_Format(PyExc_ValueError, "size_check: not a postfix program of depth 1 to %d: %R", MAX_STACK,
                     s->refs[0]);
    }
    return PyErr_Occurred() ? -1 : 0;
}

static int64_t floordiv(int64_t a, int64_t b) { return a / b - ((a % b != 0) && ((a < 0) != (b < 0))); }

/* False on overflow or division by zero. */
static bool apply(OpCode op, int64_t a, int64_t b, int64_t *out)
{
    switch (op) {
    case ADD: return !__builtin_add_overflow(a, b, out);
    case SUB: return !__builtin_sub_overflow(a, b, out);
    case MUL: return !__builtin_mul_overflow(a, b, out);
    case FLOORDIV:
    case MOD:
        if (b == 0 || (a == INT64_MIN && b == -1)) {
            return false;
        }
        *out = op == FLOORDIV ? floordiv(a, b) : a - floordiv(a, b) * b;
        return true;
    case MIN: *out = a < b ? a : b; return true;
    case MAX: *out = a > b ? a : b; return true;
    case LT: *out = a < b; return true;
    case LE: *out = a <= b; return true;
    case GT: *out = a > b; return true;
    case GE: *out = a >= b; return true;
    case EQ: *out = a == b; return true;
    case NE: *out = a != b; return true;
    case AND: *out = a && b; return true;
    case OR: *out = a || b; return true;
    case NEG: return !__builtin_sub_overflow((int64_t)0, a, out);
    case NOT: *out = !a; return true;
    default: return false;
    }
}

/* False on overflow or division by zero. */
static bool evaluate(const Step *s, const Run *run, int64_t *out)
{
    int64_t stack[MAX_STACK];
    int top = -1;
    const Instr *code = s->ext;
    for (Py_ssize_t i = 0; i < s->n; i++) {
        if (code[i].op <= PUSH_INT) {
            stack[++top] = code[i].op == PUSH_INT ? code[i].value : run->sizes[code[i].value];
            continue;
        }
        int64_t b = 0;
        if (code[i].op < NEG) {
            b = stack[top--];
        }
        if (!apply(code[i].op, stack[top], b, &stack[top])) {
            return false;
        }
    }
    *out = stack[0];
    return true;
}

static int eval_size_check(Step *s, Run *run, const Call *call)
{
    DC_UNUSED(call);
    int64_t answer;
    return evaluate(s, run, &answer) && answer != 0;
}

static int eval_size_number(Step *s, Run *run, const Call *call)
{
    DC_UNUSED(call);
    int64_t value;
    if (!evaluate(s, run, &value)) {
        return 0;
    }
    PyObject *number = PyLong_FromLongLong(value);
    if (number == NULL) {
        PyErr_Clear();
        return 0;
    }
    dc_set_register(run, s->dst, number);
    return 1;
}

const StepKind dc_size_kinds[] = {
    {"size_check", "o", eval_size_check, finish_program},
    {"size_number", "do", eval_size_number, finish_program},
    {NULL, NULL, NULL, NULL},
};
