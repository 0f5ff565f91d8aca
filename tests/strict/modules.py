"""Which modules of CPython's `test` package run strictly: those about the language and its built-in types,
and some of the standard library's that are written in Python.

A module that the running Python does not have (names change: test_unicode became test_str) is left out.
"""

import importlib.util

NAMES = """
test_abc test_argparse test_array test_ast test_asyncgen test_asyncio.test_futures test_asyncio.test_locks
test_asyncio.test_queues test_asyncio.test_streams test_asyncio.test_taskgroups test_asyncio.test_timeouts
test_augassign test_baseexception test_binop test_bisect test_bool test_builtin test_bytes test_calendar test_call
test_class test_cmd test_collections test_compare test_complex test_configparser test_contains test_context
test_contextlib test_contextlib_async test_copy test_copyreg test_coroutines test_csv test_dataclasses
test_decorators test_defaultdict test_deque test_descr test_descrtut test_dict test_dictcomps test_dictviews
test_dynamic test_dynamicclassattribute test_enum test_enumerate test_eof test_except_star test_exception_group
test_exception_hierarchy test_exception_variations test_exceptions test_extcall test_float test_flufl test_fnmatch
test_format test_fractions test_frame test_frozen test_fstring test_funcattrs test_functools test_generator_stop
test_generators test_genericalias test_genericclass test_genexps test_getopt test_glob test_global test_grammar
test_graphlib test_hash test_heapq test_html test_htmlparser test_http_cookies test_index test_int test_int_literal
test_isinstance test_iter test_iterlen test_itertools test_json test_keyword test_keywordonlyarg test_linecache
test_list test_listcomps test_long test_longexp test_math test_memoryio test_memoryview test_metaclass
test_named_expressions test_numeric_tower test_opcodes test_operator test_optparse test_ordered_dict test_patma
test_peepholer test_pep646_syntax test_positional_only_arg test_posixpath test_pow test_pprint test_print
test_property test_pyclbr test_queue test_raise test_random test_range test_re test_reprlib test_richcmp test_sched
test_scope test_selectors test_set test_setcomps test_shelve test_shlex test_slice test_sort test_stat
test_statistics test_str test_strftime test_string test_string_literals test_strtod test_struct test_structseq
test_subclassinit test_super test_textwrap test_thread test_timeit test_traceback test_tuple test_type_aliases
test_type_comments test_type_params test_typechecks test_types test_typing test_unary test_unicode test_unpack
test_unpack_ex test_urlparse test_userdict test_userlist test_userstring test_utf8source test_uuid test_weakref
test_weakset test_with test_yield_from
""".split()

QUICK = """
test_augassign test_binop test_bool test_class test_contains test_copyreg test_descrtut test_dictcomps
test_dictviews test_dynamicclassattribute test_exception_variations test_extcall test_flufl test_fnmatch
test_fractions test_funcattrs test_generator_stop test_genericalias test_genericclass test_global test_html
test_isinstance test_keyword test_keywordonlyarg test_listcomps test_longexp test_metaclass
test_named_expressions test_numeric_tower test_opcodes test_patma test_positional_only_arg test_print
test_raise test_reprlib test_scope test_setcomps test_sort test_string_literals test_subclassinit
test_super test_textwrap test_typechecks test_unary test_unpack test_unpack_ex test_with
""".split()  # two or three seconds each: they run in `make test`, the others in `make test-slow`

MODULES = tuple(n for n in NAMES if importlib.util.find_spec(f"test.{n}"))
