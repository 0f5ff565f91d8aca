"""Code objects as the machine reads them."""

import dis
import gc
import weakref

from dynacomp.capture.bytecode.code import argument_count, decode, per_code


def guarded(x, *rest, flag=False, **others):
    try:
        try:
            return x / flag
        except ZeroDivisionError:
            return rest
    finally:
        others.clear()


def fresh(text="lambda x: x + 1"):
    return compile(text, "<made>", "eval").co_consts[0]


def test_instructions_are_those_of_dis_without_caches_and_prefixes():
    wanted = [(i.offset, i.opname, i.argval) for i in dis.get_instructions(guarded) if i.opname not in
              ("EXTENDED_ARG", "CACHE")]
    decoded = decode(guarded.__code__)
    assert [(i.offset, i.name, i.argval) for i in decoded.instrs] == wanted
    assert all(decoded.instrs[i.index] is i and decoded.at[i.offset] == i.index for i in decoded.instrs)
    assert min(i.line for i in decoded.instrs) == guarded.__code__.co_firstlineno


def test_a_prefix_leads_to_the_instruction_that_it_belongs_to():
    wide = fresh("lambda x: (" + "".join(f"x.a{n}, " for n in range(300)) + ")")
    prefixes = [i.offset for i in dis.get_instructions(wide) if i.opname == "EXTENDED_ARG"]
    decoded = decode(wide)
    assert prefixes and all(decoded.instrs[decoded.at[p]].offset > p for p in prefixes)


def test_the_innermost_handler_of_an_instruction():
    decoded = decode(guarded.__code__)
    dividing = next(i for i in decoded.instrs if i.name == "BINARY_OP")
    around = [h for h in decoded.handlers if h.start <= dividing.offset < h.end]
    assert decoded.handler(dividing.offset) == around[-1]
    assert decoded.handler(decoded.instrs[0].offset) is None
    assert decode(fresh()).handlers == ()


def test_parameters_are_counted_with_stars():
    assert argument_count(guarded.__code__) == 4
    assert argument_count((lambda a, /, b, *, c: 0).__code__) == 3


def test_what_is_known_of_a_code_object_does_not_keep_it_alive():
    asked = []
    known = per_code(lambda code: asked.append(code.code.co_name) or len(code.instrs))
    code = fresh()
    decoded, length = decode(code), len(decode(code).instrs)
    assert known(decoded) == known(decode(code)) == length and asked == ["<lambda>"]
    dead = weakref.ref(code)
    del code, decoded
    asked.clear()
    gc.collect()
    assert dead() is None
    assert known(decode(fresh())) == length and asked == ["<lambda>"]  # an equal one is another one
