#!/usr/bin/env python3
"""Writes conformance.json: the results of small templates in Python's jinja2, set up as in Hugging Face transformers.

Run it where jinja2 is installed (apt-get install python3-jinja2) after adding cases below. Every case is a template with
either its output or the error of parsing or rendering it.
"""

import datetime
import json
import pathlib

import jinja2
import jinja2.ext
import jinja2.sandbox


class Generation(jinja2.ext.Extension):
    """The generation tag: in a prompt, it only writes its body, which has its own scope."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        call = self.call_method("_body")
        return jinja2.nodes.CallBlock(call, [], [], body).set_lineno(line)

    def _body(self, caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def strftime_now(format):
    return datetime.datetime(2026, 1, 2, 15, 4, 5, 678901).strftime(format)


def environment():
    env = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = strftime_now
    return env


CONTEXT = {
    "i": 7, "neg": -7, "zero": 0, "big": 9007199254740993, "huge": 123456789012345678901234567890,
    "f": 2.5, "tiny": 1e-07, "large": 1e16, "yes": True, "no": False, "nil": None,
    "s": "hello world", "empty": "", "uni": "Zürich ß Σίσυφος 日本 🎉", "lines": "one\ntwo\n\n  three\r\nfour",
    "spaces": "  pad\t\n", "html": "<b>\"Tom\" & 'Al'</b>", "quote": "it's", "both": "it's \"x\"",
    "csv": "a,b,,c", "numbers": [3, 1, 2], "words": ["pear", "Apple", "fig", "apple"], "mixed": [1, "a", None, 2.0, True],
    "nested": [[1, 2], [3, [4]]], "none_list": [], "obj": {"b": 1, "a": {"c": [1, 2]}, "items": "key", "Z": None},
    "empty_obj": {}, "users": [
        {"name": "Ann", "age": 31, "tags": ["x"]}, {"name": "bob", "age": 25, "tags": []},
        {"name": "Cy", "age": 31}, {"name": "ann", "age": None},
    ],
    "tree": [{"n": "a", "kids": [{"n": "b", "kids": [{"n": "c", "kids": []}]}, {"n": "d", "kids": []}]}],
    "messages": [
        {"role": "system", "content": "Be nice."}, {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "f", "arguments": {"x": 1}}}]},
    ],
}

# Expressions, one per line; each becomes {{ expression }}.
EXPRESSIONS = {
    "literals": r"""
        "\x41\u00e9\U0001F389"
        1
        0
        1.5
        1e3
        2.5e-3
        1e16
        1e15
        123456789.0
        1e-4
        1e-5
        0.1 + 0.2
        1.0
        -0.0
        1e400
        'a' "b" 'c'
        'a\nb\tc\\d\'e"'
        '\q\%'
        "a
        b"
        true, True, false, False, none, None
        []
        [1]
        [1, 'a', none, true, 1.5, [2], {'k': 'v'}]
        ()
        (1,)
        (1, 2)
        1, 2
        {}
        {'a': 1, 2: 'b'}
        {'a': 1, 2: 'b'}[2], {1: 'b'}['1'] is defined, 3 in {3: 1}, '3' in {3: 1}
        {10: 'a', 9: 'b'} | dictsort
        {'a': 1, 'a': 2}
        [1, 2,]
        {'a': 1,}
        "it's"
        'say "hi"'
        ["it's", 'say "hi"', 'it\'s "both"', 'a\\b', '\x07\x7f\u00a0\u200b\u00e9\ue000']
        [1.0, 1e20, 1e-10]
        012
        {[1]: 2}
        9223372036854775807
        """,
    "arithmetic": r"""
        1 + 2 * 3
        (1 + 2) * 3
        7 / 2
        6 / 2
        7 // 2
        -7 // 2
        7 // -2
        -7 % 3
        7 % -3
        7.5 // 2
        -7.5 // 2
        7.5 % -2
        -7.5 % 2
        6.0 // 2
        -i
        +i
        - -i
        -f
        +yes
        -yes
        true + true
        true * 3
        1 + 1.0
        3 * 1.0
        10 - 2.5
        i / 0
        i // 0
        i % 0
        1.0 / 0
        0 ** -1
        big + 1
        big / 3
        big * 1.0
        9007199254740993 / 9007199254740992
        'a' + 'b'
        'ab' * 3
        3 * 'ab'
        'ab' * 0
        'ab' * -1
        [1, 2] + [3]
        [1] * 3
        (1, 2) + (3,)
        (1,) * 2
        [1] + (2,)
        'a' + 1
        1 + 'a'
        none + 1
        [] - []
        'a' - 'b'
        -'a'
        -none
        'a' * 'b'
        'a' * 1.5
        {} + {}
        huge
        huge == huge
        huge > i
        i < huge
        huge == i
        1e16 + 1
        1e308 * 10
        -1e308 * 10
        5 // 0.3
        5 % 0.3
        -5 % 0.3
        0.0 * -1
        """,
    "concat": r"""
        'a' ~ 1 ~ none ~ true ~ 1.5 ~ [1] ~ missing
        1 ~ 2 + 3
        1 + 2 ~ 3
        'x' ~ -1
        'x' ~ 1 * 2
        """,
    "comparison": r"""
        1 < 2
        1 < 2 < 3
        1 < 3 < 2
        3 > 2 >= 2 == 2.0
        1 == 1.0
        1 == true
        '1' == 1
        none == false
        [] == []
        [1, 2] == [1, 2.0]
        [1] == (1,)
        (1, 2) == (1, 2)
        {'a': 1, 'b': 2} == {'b': 2, 'a': 1}
        {'a': 1} == {'a': 2}
        1 != 2
        'a' < 'b'
        'Z' < 'a'
        'a' < 'aa'
        [1, 2] < [1, 3]
        [1] < [1, 0]
        (1, 'a') < (1, 'b')
        1 < 'a'
        none < 1
        [] < 1
        {} < {}
        true < 2
        1 in [1, 2]
        1.0 in [1]
        '1' in [1]
        3 not in [1, 2]
        'a' in 'cat'
        '' in 'cat'
        1 in 'cat'
        'b' in obj
        1 in obj
        'x' not in obj
        1 in 5
        1 in none
        missing in [1]
        missing in 'a'
        'a' in missing
        none in [none]
        missing == missing
        missing == none
        missing == ''
        missing != 1
        missing < 1
        1 < missing
        not 1 in [2]
        1 in [1] == true
        2 in range(3)
        1 == 1 and 2 == 2 or missing.x
        big == 9007199254740992.0
        big > 9007199254740992.0
        (1, 2) in [(1, 2)]
        """,
    "logic": r"""
        1 and 2
        0 and 2
        1 or 2
        0 or ''
        '' or none or 'x'
        not ''
        not not 'a'
        not missing
        none and missing.x
        not 1 + 1
        true and not false
        (none or []) is none
        """,
    "truth": r"""
        'y' if '' else 'n'
        'y' if ' ' else 'n'
        'y' if 0.0 else 'n'
        'y' if [] else 'n'
        'y' if [0] else 'n'
        'y' if {} else 'n'
        'y' if () else 'n'
        'y' if none else 'n'
        'y' if missing else 'n'
        'y' if range(0) else 'n'
        'y' if obj.keys() else 'n'
        'y' if namespace() else 'n'
        'y' if (none_list | map('upper')) else 'n'
        """,
    "conditionals": r"""
        'a' if yes
        'a' if no
        'a' if no else 'b'
        'a' if no else 'b' if no else 'c'
        ('a' if yes else 'b') ~ 'c'
        'x' ~ ('a' if yes)
        'x' ~ ('a' if no) ~ 'y'
        ('a' if no) is defined
        ('a' if no).x
        1 if yes else missing.x
        [1 if yes else 2, 3 if no else 4]
        {'a': 1 if no else 2}
        'a' if no if yes
        """,
    "undefined": r"""
        missing
        missing.attr
        missing['attr']
        missing()
        missing + 1
        1 + missing
        'a' + missing
        missing ~ 'a'
        missing | length
        missing | list
        missing | join(',')
        missing | default('d')
        missing | upper
        missing | string
        missing | trim
        missing | int
        missing | float
        missing | abs
        missing | first
        missing | last
        missing | reverse | list
        missing | sort
        missing | tojson
        missing | items | list
        missing | dictsort
        missing | map('upper') | list
        missing | selectattr('x') | list
        missing | replace('a', 'b')
        missing | round
        missing | unique | list
        missing | indent
        missing | format
        [missing]
        {'a': missing}
        [missing] | tojson
        missing[1:]
        -missing
        obj.nope
        obj.nope.deeper
        obj['nope']
        obj[1]
        s.nope
        s[100]
        numbers[10]
        numbers.x
        numbers['x']
        i.x
        i[0]
        none.x
        none[0]
        nil.x.y
        '%s' % missing
        'abc' % missing
        missing is defined
        obj.nope is defined
        obj.nope is none
        range(missing)
        missing | safe
        missing == obj.nope
        """,
    "attributes": r"""
        obj.b
        obj['b']
        obj.a.c[1]
        obj['a']['c'][-1]
        obj.items
        obj['items']
        obj.items() | list
        obj.keys() | list
        obj.values() | list
        obj.Z
        obj.get('b')
        obj.get('nope')
        obj.get('nope', 5)
        obj.get('Z', 5)
        obj['get']('b')
        numbers[0]
        numbers[-1]
        numbers[3]
        numbers[-4]
        numbers.0
        nested.1.1.0
        s[0]
        s[-1]
        uni[1]
        uni[-1]
        numbers[true]
        numbers[1.0]
        numbers['0']
        (1, 2)[0]
        range(5)[2]
        range(5)[-1]
        range(5)[5]
        obj.keys()[0]
        obj.__class__
        obj.__class__.x
        s.__len__
        s.__len__()
        obj['__class__']
        obj._x
        numbers.append(1)
        numbers.append
        numbers['append'](1)
        numbers.pop()
        numbers.sort()
        obj.update({'x': 1})
        obj.pop('b')
        obj.clear
        obj.setdefault('q', 1)
        numbers.index(9)
        numbers.index(2)
        words.index('fig')
        mixed.index(none)
        mixed.count(1)
        none_list.count(1)
        numbers.index()
        numbers()
        s()
        obj.b()
        obj.items()
        obj.keys()
        obj.values()
        obj.items() | length
        obj | length
        obj | list
        {'keys': 1}.keys
        {'keys': 1}['keys']
        users[0].tags[0]
        """,
    "slices": r"""
        s[1:3]
        s[:5]
        s[6:]
        s[-5:]
        s[:-1]
        s[::2]
        s[::-1]
        s[8:2:-2]
        s[100:]
        s[3:1]
        uni[1:4]
        uni[::-1]
        numbers[1:]
        numbers[:]
        numbers[::-1]
        numbers[-2:]
        numbers[:100]
        numbers[none:2]
        (1, 2, 3)[1:]
        s[::0]
        s['a':]
        i[1:]
        nil[1:]
        obj[1:]
        numbers[0:2][1]
        """,
    "percent": r"""
        'a%sb' % 1
        '%s-%s' % ('a', 2)
        '%d' % 3.9
        '%d' % true
        '%5d|%-5d|%05d|%+d|% d' % (42, 42, 42, 42, 42)
        '%f %.2f %8.3f %-8.1f| %08.2f' % (1.5, 1.005, 3.14159, 2.25, -3.14159)
        '%%' % ()
        '%.2s|%5.1s|%-5s|' % ('abc', 'xyz', 'q')
        '%(c)s' % {'a': 1}
        '%s' % [1, 2]
        '%s' % {'a': 1}
        '%s' % (none,)
        '%s %s' % ('a',)
        '%s' % ('a', 'b')
        'abc' % 1
        'abc' % []
        'abc' % {}
        '%d' % 'a'
        '%x' % 1.5
        '%y' % 1
        '%' % 1
        '%5s|%-5s|' % ('é', '日')
        '%s' % huge
        '%f' % true
        '%+.1f' % 0.05
        '%s' % s
        """,
    "format": r"""
        '{:d} {a:d} {b:d}'.format(1, a=true, b=-7)
        '{:d}'.format(1.5)
        '{:d}'.format('1')
        '{} {}'.format(1, 'a')
        '{0} {1} {0}'.format('a', 'b')
        '{a} {b}'.format(a=1, b=2)
        '{{}} {}'.format(1)
        '{} {} {} {}'.format(none, true, 1.0, [1, 'a'])
        '{'.format(1)
        '}'.format(1)
        '{} {0}'.format(1)
        '{}'.format()
        '{2}'.format(1)
        '{x}'.format(1)
        '{:d}'.format('a')
        '{:s}'.format(1)
        '{:5}'.format(none)
        '{.x}'.format(obj)
        '{!x}'.format(1)
        """,
    "string methods": r"""
        s.upper()
        uni.upper()
        uni.lower()
        'ÀÉ'.lower()
        'İ'.lower()
        'ΑΣ'.lower()
        uni.title()
        "they're bill's 2nd".title()
        'hELLO wORLD'.capitalize()
        'ßx'.capitalize()
        'ßx'.title()
        'ǆx'.title()
        spaces.strip()
        spaces.lstrip()
        spaces.rstrip()
        '\u00a0x\u2003\x1c'.strip()
        'xxhixx'.strip('x')
        'xyhiyx'.lstrip('xy')
        'xyhiyx'.rstrip('xy')
        'abc'.strip('')
        'abc'.strip(none)
        'abc'.strip(1)
        s.split()
        s.split('o')
        csv.split(',')
        csv.split(',', 1)
        csv.split(',', maxsplit=2)
        csv.split(sep=',')
        csv.rsplit(',', 1)
        csv.rsplit(',')
        ' a  b c '.split()
        ' a  b c '.split(none, 1)
        ' a  b c '.rsplit(none, 1)
        ' a  b c '.split(' ')
        ''.split()
        ''.split(',')
        'abc'.split('')
        'a\nb'.splitlines()
        lines.splitlines()
        lines.splitlines(true)
        'a\x0bb\u2028c\n'.splitlines()
        'a=b=c'.partition('=')
        'a=b=c'.rpartition('=')
        'abc'.partition('=')
        'abc'.rpartition('=')
        s.find('o')
        s.find('zz')
        s.rfind('o')
        uni.find('日')
        uni.rfind('ς')
        s.index('o')
        s.index('zz')
        s.count('o')
        s.count('')
        'aaaa'.count('aa')
        s.startswith('hell')
        s.startswith(('x', 'he'))
        s.startswith([1])
        s.startswith('')
        s.endswith('world')
        s.endswith(('x', 'ld'))
        s.replace('o', '0')
        s.replace('o', '0', 1)
        s.replace('', '-')
        s.replace('zz', 'y')
        'é'.replace('', '-')
        s.replace('o')
        s.replace(1, 2)
        ','.join(['a', 'b'])
        ','.join('abc')
        ','.join([])
        ','.join([1])
        ','.join({'a': 1, 'b': 2})
        '-'.join(words | map('upper'))
        'a'.center(5, 'xx')
        'abc'.isalpha()
        'ab1'.isalpha()
        '12'.isdigit()
        '²'.isdigit()
        ''.isdigit()
        ' \t'.isspace()
        ''.isspace()
        'abc'.islower()
        'a1'.islower()
        '1'.islower()
        'ABC'.isupper()
        'unhappy'.removeprefix('un')
        'unhappy'.removesuffix('py')
        'abc'.removeprefix('x')
        s.upper
        s.nope()
        s.upper(1)
        s.split(foo=1)
        s.upper().lower().title()
        'a'.join
        """,
    "tests": r"""
        i is defined, missing is defined, missing is undefined
        nil is none, i is none
        yes is boolean, 1 is boolean
        yes is true, 1 is true, no is false, 0 is false
        1 is integer, 1.0 is integer, true is integer, huge is integer
        1.0 is float, 1 is float
        1 is number, 1.0 is number, true is number, '1' is number
        'a' is string, 1 is string, (html | safe) is string
        obj is mapping, [] is mapping, namespace() is mapping
        [] is sequence, 'a' is sequence, obj is sequence, () is sequence, 1 is sequence, missing is sequence, range(2) is sequence, obj.keys() is sequence
        [] is iterable, 'a' is iterable, obj is iterable, 1 is iterable, none is iterable, obj.items() is iterable, (numbers | map('abs')) is iterable, missing is iterable
        3 is odd, 4 is odd, -3 is odd, 4 is even, 2.0 is even, 1.5 is odd
        9 is divisibleby 3, 9 is divisibleby(2)
        1 is eq 1, 1 is equalto 1.0, numbers | select('==', 1) | list, numbers | reject('<', 2) | list
        1 is ne 2
        1 is lt 2, 1 is lessthan 2, 2 is le 2, 3 is gt 2, 3 is greaterthan 2, 2 is ge 2
        1 is in [1, 2], 'a' is in 'abc', 1 is not in [1]
        'abc' is lower, 'ABC' is upper, 'aB' is lower, '1' is lower
        1 is not none
        not 1 is none
        1 is none or 2 is number
        obj.b is defined and obj.b is number
        'a' is odd
        none is odd
        1 is divisibleby 0
        1 is lt 'a'
        1 is nope
        1 is defined is defined
        -1 is lt 0
        i is divisibleby i
        x is defined or y is defined
        x is not defined and i
        """,
    "numbers": r"""
        '077' | int, ' 42 ' | int, '+5' | int, '-5' | int, '12' | int(default=3), 'x' | int(7), '1e3' | int
        '1.5' | float, 'x' | float, 'x' | float(2.5), 1 | float, none | float, 'inf' | float, '1e5' | float, 'nan' | float, ' 1.5 ' | float
        2.5 | round, 3.5 | round, -2.5 | round, 2.567 | round(2), 2.675 | round(2), 7 | round, 7 | round(2)
        -5 | abs, 5 | abs, -1.5 | abs, true | abs
        -5|abs
        'a' | abs
        '42' | int, '42.9' | int, 'x' | int, 'x' | int(5), '' | int, none | int, [] | int, 3.99 | int, -3.99 | int, true | int
        2.5 | round(method='x')
        'a' | round
        true | round
        1e300 | round(2)
        ['a'] | sum
        ['a'] | sum(start='')
        [1, none] | sum
        [1, 'a'] | max
        """,
    "text filters": r"""
        s | upper, S | lower, 'ABC' | lower, 5 | upper, none | upper, [1] | upper
        'hello WORLD' | capitalize, uni | capitalize, '' | capitalize
        'hello wORLD-foo (bar) [baz] {qux} <q>' | title, "it's" | title, uni | title, '' | title, 'ß' | title
        spaces | trim, 'xxhixx' | trim('x'), 5 | trim, none | trim, 'a.' | trim(chars='.')
        s | replace('o', '0'), s | replace('o', '0', 1), 5 | replace(5, 6), s | replace('o', none), s | replace('', '-')
        s | replace('o')
        [1, 2, 3] | join, [1, 2, 3] | join(', '), users | join(', ', attribute='name'), 'abc' | join('-'), [] | join('x'), [none, true, 1.5] | join(' '), obj | join(','), [1, 2] | join(0), (1, 2) | join(d='|')
        5 | join
        '%s and %s' | format('a', 1), '%d%%' | format(50), 'abc' | format
        '%s' | format('a', x=1)
        '%s' | format
        lines | indent, lines | indent(2), lines | indent(2, true), lines | indent(2, true, true), lines | indent('> '), lines | indent(blank=true), '' | indent, 'a' | indent(first=true), 'a\n' | indent, 'a\n\nb\n' | indent(1)
        5 | indent
        s | truncate(2)
        5 | string, none | string, [1] | string, s | string
        s | length, uni | length, [] | length, obj | length, range(5) | length, s | count
        5 | length
        none | length
        (numbers | map('abs')) | length
        s | first, s | last, numbers | first, numbers | last, [] | first, [] | last, obj | first, obj | last, range(3) | last
        (numbers | map('abs')) | first
        (numbers | map('abs')) | last
        5 | first
        s | reverse, numbers | reverse | list, obj | reverse | list, (1, 2) | reverse | list, uni | reverse, numbers | map('abs') | reverse
        5 | reverse
        s | nope
        s | upper('x')
        s | trim(foo=1)
        'a' | default('b'), '' | default('b'), '' | default('b', true), none | default('b'), none | default('b', true), missing | d(5), missing | default, 0 | d(1, boolean=true)
        missing.x | default('b')
        obj.nope.x | default('b')
        """,
    "markup": r"""
        '<b>' + ('x' | safe)
        ('x' | safe) + '<b>'
        '<b>' ~ ('x' | safe) ~ '<i>'
        ('<a>' | safe) == '<a>'
        {'a': '<' | safe} | tojson
        ('<a>' | safe) | string + '<'
        (['<', '>' | safe] | join) + '<'
        'x' in ('xyz' | safe)
        {'x': 1}['x' | safe]
        {('x' | safe): 1}.x
        5 | safe
        (html | e).center(40, '<')
        1 + ('a' | safe)
        ('a' | safe) < 'b'
        """,
    "lists": r"""
        numbers | sort, numbers | sort(true), words | sort, words | sort(case_sensitive=true), words | sort(reverse=true), users[:3] | sort(attribute='age') | map(attribute='name') | list, users[:3] | sort(attribute='age,name') | map(attribute='name') | list, obj | sort, 'hello' | sort
        [{'a': none}, {'a': none}] | sort(attribute='a'), [{'a': 1}, {'a': 1}] | sort
        mixed | sort
        users | sort(attribute='age')
        [{'a': 1}, {'a': 2}] | sort
        [(2, 'b'), (1, 'z'), (1, 'a')] | sort
        words | unique | list, words | unique(true) | list, [1, 1.0, true, '1'] | unique | list, users | unique(attribute='age') | map(attribute='name') | list
        words | unique
        numbers | map('string') | list, words | map('upper') | join, users | map(attribute='name') | list, users | map(attribute='nope') | list, users | map(attribute='nope', default=0) | list, users[:2] | map(attribute='tags.0') | list, [[1, 2]] | map(attribute=1) | list, [[1, 2]] | map(attribute='1') | list
        numbers | map('nope') | list
        numbers | map | list
        numbers | map(foo=1) | list
        numbers | map('nope')
        words | map('replace', 'p', 'P') | list, words | map('default', 'x') | list, ['1', 'x'] | map('int', default=9) | list
        [1, 2, 3, 4] | select('odd') | list, [1, 2, 3, 4] | reject('odd') | list, [0, 1, '', 'a', none] | select | list, [0, 1, '', 'a', none] | reject | list, numbers | select('gt', 1) | list, numbers | select('in', [1, 2]) | list, numbers | select('divisibleby', 2) | list
        users | selectattr('tags') | map(attribute='name') | list, users | selectattr('age', 'eq', 31) | map(attribute='name') | list, users | rejectattr('age', 'none') | list | length, users | rejectattr('tags') | map(attribute='name') | list, users | selectattr('tags', 'defined') | list | length, users | selectattr('nope') | list
        messages | selectattr('role', 'equalto', 'user') | list, messages | selectattr('tool_calls') | first, messages | map(attribute='role') | unique | join(',')
        numbers | select('nope') | list
        numbers | selectattr | list
        (messages | selectattr('role', 'equalto', 'user'))[0]
        (messages | selectattr('role', 'equalto', 'user') | list)[0].content
        none | select('odd') | list
        5 | select('odd') | list
        [] | select('nope') | list
        numbers | slice(0) | list
        users[:3] | groupby('tags', default='-') | map('first') | list | length, users[:3] | groupby('nope', default=0) | map('first') | list, users[:3] | groupby('age')
        users | groupby('age')
        obj | dictsort, obj | dictsort(true), {'b': 1, 'a': 2} | dictsort(by='value'), {'b': 1, 'a': 2} | dictsort(reverse=true), {'B': 1, 'a': 2} | dictsort, {'x': 'B', 'y': 'a'} | dictsort(false, 'value')
        {'a': 1} | dictsort(by='x')
        {1: 1, 'a': 2} | dictsort
        [] | dictsort
        obj | items | list, obj.items() | list, {'a': 1} | items
        [] | items | list
        obj | list, s | list, uni | list, range(3) | list, (1, 2) | list, obj.values() | list, none_list | list
        5 | list
        numbers | list | tojson
        numbers | map('abs') | tojson
        numbers | sort | first, numbers | sort | last
        [3, 1] | sort | join('-') | upper
        """,
    "globals": r"""
        strftime_now('%Y-%m-%d'), strftime_now('%d %b %Y'), strftime_now('%A, %B %d'), strftime_now('%H:%M:%S'), strftime_now('%j %y %I %p %%'), strftime_now('%-d %-m %e'), strftime_now('%D|%F|%T|%R')
        range(3) | list, range(1, 4) | list, range(0, 10, 3) | list, range(5, 0, -2) | list, range(0) | list
        range(3)
        range(1, 10, 2)
        range(0, 1, 0)
        range(100000) | length
        range(100001) | length
        range('a')
        range(1.5)
        range()
        range(1, 2, 3, 4)
        dict(a=1, b=2), dict({'x': 1}, y=2), dict([('a', 1)]), dict()
        dict([1])
        dict(1)
        namespace(a=1), namespace({'a': 1}, b=2), namespace().x, namespace(a=1).a, namespace(a=1)['a']
        namespace(a=1).b.c
        namespace(_p=1)._p
        namespace(_p=1)._p.x
        namespace(a=1) | list
        cycler()
        raise_exception('no')
        raise_exception('no ' ~ i)
        range is defined
        """,
    "json": r"""
        obj | tojson
        users | tojson
        mixed | tojson
        html | tojson, uni | tojson, lines | tojson, '\x00\x1f\x7f\u2028"\\/' | tojson
        uni | tojson(ensure_ascii=true), '\x7f🎉' | tojson(ensure_ascii=true)
        obj | tojson(indent=2)
        obj | tojson(indent=0)
        obj | tojson(indent='--')
        obj | tojson(indent=4, sort_keys=true)
        obj | tojson(true, 2)
        obj | tojson(4)
        obj | tojson(separators=(',', ':'))
        obj | tojson(indent=1, separators=(' , ', ' : '))
        [] | tojson(indent=2), {} | tojson(indent=2), [[]] | tojson(indent=2), [{}] | tojson(indent=2)
        1.0 | tojson, 1e16 | tojson, 1e-7 | tojson, 0.1 | tojson, huge | tojson, -0.0 | tojson, 1e400 | tojson, -1e400 | tojson, (1e400 - 1e400) | tojson
        (1, 2) | tojson, none | tojson, true | tojson, 'a' | tojson
        {1: 2, 'b': 3} | tojson
        {(1, 2): 3} | tojson
        {'b': 1, 'a': 2, 'B': 3} | tojson(sort_keys=true)
        {1: 1, 'a': 2} | tojson(sort_keys=true)
        range(3) | tojson
        namespace(a=1) | tojson
        obj.keys() | tojson
        obj.items() | list | tojson
        s.upper | tojson
        messages[2].tool_calls[0].function | tojson
        messages | tojson(indent=2)
        """,
    "printing": r"""
        [i, f, yes, nil, s, obj]
        obj
        nested
        {'a': 'it\'s', 'b': "\n"}
        users
        (1, 'a', (2,))
        1.0, 100.0, 1e15, 1e16, 1.5e300, 1e-4, 0.00001, 123456.789
        true
        none
        uni
        [uni]
        tiny, large
        """,
}

# Whole templates, rendered with CONTEXT.
TEMPLATES = {
    "whitespace": [
        "a\n{% if true %}\nb\n{% endif %}\nc\n",
        "a\n  {% if true %}  \n  b\n  {% endif %}\nc",
        "a  {%- if true -%}  b  {%- endif -%}  c",
        "a\n\n{%- if true %}\n\nb{% endif -%}\n\nc",
        "  {%+ if true %}x{% endif +%}\ny",
        "{% if true +%}\nx\n{%+ endif %}\ny",
        "a {{- 'b' -}} c",
        "a\n  {{ 'b' }}\n  c",
        "a\n\n  {{- 'b' -}}  \n\n c",
        "{{ 'a' }}\n{{ 'b' }}\n",
        "{{ 'a' }}\n\n",
        "\n\na\n\n",
        "a\r\nb\rc\n",
        "a\r\n{% if true %}\r\nb\r\n{% endif %}\r\n",
        "a{# c #}b",
        "a\n{# c #}\nb",
        "a\n  {# c #}\nb",
        "a  {#- c -#}  b",
        "a\n  {#+ c +#}\nb",
        "{# multi\nline #}\nx",
        "{##}x",
        "{#-#}x",
        "x{# unclosed", "x {#", "x{#-\n", "x{% raw %}", "x{% raw -%}\n",
        "{{ a·b }}{{ é is defined }}", "{{ 1.a is defined }}{{ 2*-1 }}{{-i-}}x", "{{ 1if i else 2 }}{{ 3is odd }}",
        "{% raw %}{{ x }}{% endraw %}",
        "{% raw %}\n  {{ x }}\n{% endraw %}\ny",
        "a {%- raw -%}  {{ x }}  {%- endraw -%} b",
        "a\n  {% raw %}  {% if %} {# #}  {% endraw %}\nb",
        "{% raw %}a{% endraw +%}\nb",
        "{%raw%}{%endraw%}",
        "{% raw %}{% endraw",
        "{% raw %}x",
        "  {% raw %}\n x {%- endraw %} y",
        "{{ '}}' }}{{ '%}' }}",
        "{{ {'a': {'b': 1}}['a'] }}",
        "{% set x = '%}' %}{{ x }}",
        "{ { x } }{ % %}",
        "{{ 1 }}{{ 2 }} {{ 3 }}",
        "a\n\t {%if true%}\tb{%endif%}",
        "x {% if true %}y{% endif %}",
        "x\n {{ '' }}  {% if true %}y{% endif %}",
        "{% if true %}\n\n\nx{% endif %}",
        "{% if true -%}\n\n\nx{% endif %}",
        "\u00a0{% if true %}x{% endif %}",
        "a\u2003\n{%- if true %}b{% endif %}",
        "{{\n  1\n  +\n  2\n}}",
        "{%\nif true\n%}x{%\nendif\n%}",
        "{{-1}}",
        "{{+1}}",
        "{{ 1 -}} \n x",
        "{{ 1 - 1 }}",
        "{%- set x = 1 -%}\n{{ x }}",
        "{% for x in [1, 2] %}\n  {{ x }}\n{% endfor %}\n",
        "{% for x in [1, 2] -%}\n  {{ x }}\n{%- endfor %}\n",
        "{}{{}}",
        "{{ }}",
        "{%%}",
        "{",
        "{{",
        "{%",
        "a{",
        "a }} b %} c #}",
        "",
        "\n",
        "plain",
    ],
    "set": [
        "{% set x = 1 %}{{ x }}",
        "{% set x, y = 1, 2 %}{{ x }}{{ y }}",
        "{% set (x, y) = [1, 2] %}{{ x }}{{ y }}",
        "{% set x, (y, z) = 1, (2, 3) %}{{ x }}{{ y }}{{ z }}",
        "{% set x, y = 'ab' %}{{ x }}{{ y }}",
        "{% set x, y = obj.a.c %}{{ x }}{{ y }}",
        "{% set x, y = [1] %}",
        "{% set x, y = [1, 2, 3] %}",
        "{% set x, y = 5 %}",
        "{% set x = 1, %}{{ x }}",
        "{% set x = 1 %}{% set x = x + 1 %}{{ x }}",
        "{% set i = i + 1 %}{{ i }}",
        "{% set x %}a{{ i }}b{% endset %}{{ x }}!",
        "{% set x | upper %}a{{ s }}b{% endset %}{{ x }}",
        "{% set x | replace('a', 'b') | upper %}aa{% endset %}{{ x }}",
        "{% set x %}{% set y = 1 %}{{ y }}{% endset %}{{ x }}{{ y }}",
        "{% set ns = namespace(a=1) %}{% set ns.a = 2 %}{% set ns.b = 3 %}{{ ns.a }}{{ ns.b }}",
        "{% set ns = namespace() %}{% set ns.a, b = 1, 2 %}{{ ns.a }}{{ b }}",
        "{% set ns = namespace() %}{% set ns.x %}text{% endset %}{{ ns.x }}",
        "{% set obj.x = 1 %}",
        "{% set missing.x = 1 %}",
        "{% set ns.x = raise_exception('later') %}",
        "{% set obj['x'] = 1 %}",
        "{% set true = 1 %}",
        "{% set 1 = 1 %}",
        "{% set x.y.z = 1 %}",
        "{% set x = %}",
        "{% set x == 1 %}",
        "{% set %}",
        "{% set x %}no end",
        "{% set x = 1 if no %}[{{ x }}]",
        "{% set x = y = 1 %}",
        "{% do numbers.append(4) %}",
        "{% set a = [1] %}{% set b = a + [2] %}{{ a }}{{ b }}",
        "{% set ns = namespace(l=[]) %}{% for x in numbers %}{% set ns.l = ns.l + [x * 2] %}{% endfor %}{{ ns.l }}",
        "{% set a, a = 1, 2 %}{{ a }}",
        "{% set none = 1 %}",
        "{% set namespace = 5 %}{{ namespace }}",
    ],
    "scopes": [
        "{% set x = 1 %}{% for y in [1] %}{% set x = 2 %}{{ x }}{% endfor %}{{ x }}",
        "{% set x = 1 %}{% for y in [1, 2] %}{{ x }}{% set x = x + 5 %}{{ x }}{% endfor %}{{ x }}",
        "{% set x = 1 %}{% if true %}{% set x = 2 %}{% endif %}{{ x }}",
        "{% if false %}{% set x = 2 %}{% endif %}{{ x }}",
        "{% if false %}{% set i = 2 %}{% endif %}{{ i }}",
        "{% if true %}{% set i = 2 %}{% endif %}{{ i }}",
        "{% for y in [1, 2] %}{% if y == 2 %}{{ i }}{% set i = 5 %}{{ i }}{% endif %}{% endfor %}{{ i }}",
        "{% for y in [1, 2] %}{% if y == 1 %}{% set i = 5 %}{% endif %}{{ i }}{% endfor %}{{ i }}",
        "{% for y in [1, 2] %}{% set q = 1 %}{% endfor %}{{ q }}",
        "{% for y in [1, 2] %}{{ q }}{% set q = y %}{% endfor %}",
        "{% for i in [1] %}{{ i }}{% endfor %}{{ i }}",
        "{% for x in [1] %}{% for x in [2] %}{{ x }}{% endfor %}{{ x }}{% endfor %}{{ x }}",
        "{% set x = 0 %}{% for a in [1] %}{% for b in [1] %}{% set x = 9 %}{{ x }}{% endfor %}{{ x }}{% endfor %}{{ x }}",
        "{% for a in [1, 2] %}{% if a == 2 %}{% set i = 3 %}{% else %}{{ i }}{% endif %}{% endfor %}",
        "{% for a in [1] %}{% set i = 3 %}{% endfor %}{{ i }}",
        "{% filter upper %}{% set x = 1 %}a{{ x }}{% endfilter %}{{ x }}",
        "{% filter replace('a', 'b') | upper %}aXa{% endfilter %}",
        "{% filter indent(2) %}a\nb{% endfilter %}",
        "{% filter nope %}a{% endfilter %}",
        "{% if true %}{% set x = 1 %}{% else %}{% set x = 2 %}{% endif %}{{ x }}",
        "{% if i == 7 %}{% set x = 1 %}{% elif i == 8 %}{% set y = 2 %}{% else %}{% set z = 3 %}{% endif %}{{ x }}{{ y }}{{ z }}",
        "{% for x in [1] %}{% if x %}{% set t = x %}{% endif %}{{ t }}{% endfor %}{{ t }}",
        "{{ x }}{% set x = 1 %}{{ x }}",
        "{% set s = s | upper %}{{ s }}{% for a in [1] %}{{ s }}{% set s = 'z' %}{{ s }}{% endfor %}{{ s }}",
        "{% generation %}{% set x = 1 %}a{{ x }}{{ i }}{% endgeneration %}{{ x }}",
        "{% for m in messages %}{% generation %}{{ m.role }}{{ loop.index }}{% endgeneration %}{% endfor %}",
        "{% for m in messages %}{% generation %}{% break %}{% endgeneration %}{% endfor %}",
    ],
    "if": [
        "{% if i == 7 %}a{% endif %}",
        "{% if no %}a{% elif yes %}b{% else %}c{% endif %}",
        "{% if no %}a{% elif no %}b{% elif zero %}d{% else %}c{% endif %}",
        "{% if no %}a{% endif %}b",
        "{% if no %}{% else %}b{% endif %}",
        "{% if i %}{% if no %}x{% else %}y{% endif %}{% endif %}",
        "{% if missing.x %}a{% endif %}",
        "{% if i, s %}a{% endif %}",
        "{% if %}a{% endif %}",
        "{% if i %}a",
        "{% if i %}a{% endfor %}",
        "{% if i %}a{% else %}b{% elif i %}c{% endif %}",
        "{% if i: %}a{% endif %}",
        "{% if no %}{{ 1 | nope }}{% endif %}ok",
        "{% if yes %}{{ 1 | nope }}{% endif %}ok",
        "{% if no %}{{ 1 is nope }}{% endif %}ok",
        "{% if no %}{% for x in [1] %}{{ 1 | nope }}{% endfor %}{% endif %}ok",
        "{{ (1 | nope) if no else 2 }}",
        "{{ 'a' if 1 is nope else 2 }}",
        "{% endif %}",
        "{% else %}",
        "{% nope %}",
        "{% if i %}{% endif i %}",
        "{% if (i == 7 and\n s) or\n no %}a{% endif %}",
        "{% if not i == 7 %}a{% else %}b{% endif %}",
        "{% if i is defined and i is number and not i is string %}a{% endif %}",
    ],
    "for": [
        "{% for x in numbers %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }} {% endfor %}",
        "{% for x in numbers %}{{ x }},{% endfor %}",
        "{% for x in [] %}a{% else %}b{% endfor %}",
        "{% for x in [1] %}a{% else %}b{% endfor %}",
        "{% for x in missing %}a{% else %}b{% endfor %}",
        "{% for x in none %}a{% endfor %}",
        "{% for x in 5 %}a{% endfor %}",
        "{% for x in 'aé日' %}{{ x }}.{% endfor %}",
        "{% for k in obj %}{{ k }};{% endfor %}",
        "{% for k, v in obj.items() %}{{ k }}={{ v }};{% endfor %}",
        "{% for k, v in obj | dictsort %}{{ k }}={{ v }};{% endfor %}",
        "{% for k, v in obj | items %}{{ k }}={{ v }};{% endfor %}",
        "{% for a, b in [[1, 2], (3, 4), 'xy'] %}{{ a }}{{ b }};{% endfor %}",
        "{% for a, b in [[1]] %}{% endfor %}",
        "{% for a, (b, c) in [[1, [2, 3]]] %}{{ a }}{{ b }}{{ c }}{% endfor %}",
        "{% for (a, b) in [[1, 2]] %}{{ a }}{{ b }}{% endfor %}",
        "{% for x in 1, 2, 3 %}{{ x }}{% endfor %}",
        "{% for x in range(3) %}{{ x }}{% endfor %}",
        "{% for x in numbers | sort | reverse %}{{ x }}{% endfor %}",
        "{% for x in numbers if x > 1 %}{{ x }}{{ loop.index }}{{ loop.length }}{{ loop.last }} {% endfor %}",
        "{% for x in numbers if x > 5 %}{{ x }}{% else %}none{% endfor %}",
        "{% for x in numbers if x > 1 and loop is undefined %}{{ x }}{% endfor %}",
        "{% for a, b in [[1, 2], [3, 4]] if b > 2 %}{{ a }}{% endfor %}",
        "{% for x in numbers %}[{{ loop.previtem }}|{{ loop.nextitem }}]{% endfor %}",
        "{% for x in numbers %}{{ loop.previtem is defined }}{{ loop.nextitem is defined }} {% endfor %}",
        "{% for x in numbers %}{{ loop.previtem.x }}{% endfor %}",
        "{% for x in numbers | map('abs') %}{{ loop.last }}{{ loop.length }}{{ loop.nextitem }} {% endfor %}",
        "{% for x in numbers | map('abs') %}{{ loop.nextitem }}{{ loop.revindex }}{{ x }} {% endfor %}",
        "{% for x in numbers %}{{ loop.cycle() }}{% endfor %}",
        "{% for x in numbers %}{{ loop.nope }}{{ loop['index'] }}{% endfor %}",
        "{% for x in numbers %}{% for y in [1, 2] %}{{ loop.index }}{% endfor %}{{ loop.index }} {% endfor %}",
        "{% for x in numbers %}{% set outer = loop %}{% for y in [1] %}{{ outer.index }}{{ loop.index }} {% endfor %}{% endfor %}",
        "{% for x in numbers %}{% if loop.first %}[{% endif %}{{ x }}{% if not loop.last %}, {% else %}]{% endif %}{% endfor %}",
        "{% for x in numbers %}{% if x == 1 %}{% continue %}{% endif %}{{ x }}{% endfor %}",
        "{% for x in numbers %}{% if x == 1 %}{% break %}{% endif %}{{ x }}{% endfor %}!",
        "{% for x in numbers %}{% for y in numbers %}{% if y == 1 %}{% break %}{% endif %}{{ x }}{{ y }} {% endfor %}{% endfor %}",
        "{% for x in [1] %}{% break %}{% else %}else{% endfor %}",
        "{% for x in [1] %}{% continue %}{% else %}else{% endfor %}",
        "{% for x in [1, 2] %}{% if x == 2 %}{% break %}{% endif %}{% else %}else{% endfor %}",
        "{% for x in [1, 2] %}{% for y in [] %}{% else %}{% break %}{% endfor %}{{ x }}{% endfor %}",
        "{% for x in [1, 2] %}{% set z %}a{% if x == 1 %}{% continue %}{% endif %}b{% endset %}{{ z }}{% endfor %}",
        "{% for x in [1, 2] %}{% filter upper %}a{% if x == 1 %}{% continue %}{% endif %}b{% endfilter %}{% endfor %}",
        "{% break %}",
        "{% for x in [1] %}{% macro m() %}{% break %}{% endmacro %}{% endfor %}",
        "{% for x in [] %}{% else %}{% break %}{% endfor %}",
        "{% for n in numbers %}{{ loop([1]) }}{% endfor %}",
        "{% for loop in [1] %}{% endfor %}",
        "{% for x in [1] %}{% set loop = 1 %}{% endfor %}",
        "{% for x, x in [[1, 2]] %}{{ x }}{% endfor %}",
        "{% for x.y in [1] %}{% endfor %}",
        "{% for 'a' in [1] %}{% endfor %}",
        "{% for x in %}{% endfor %}",
        "{% for x [1] %}{% endfor %}",
        "{% for x in [1] %}",
        "{% for x in [1] %}{% endif %}",
        "{{ loop }}{{ loop is defined }}",
        "{% set ns = namespace(last=none) %}{% for x in [1, 1, 2, 2, 3] if x != ns.last %}{% set ns.last = x %}{{ x }}{% endfor %}",
        "{% set g = numbers | map('string') %}{% for x in g %}{{ x }}{% endfor %}-{% for x in g %}{{ x }}{% else %}empty{% endfor %}",
        "{% set g = numbers | map('string') %}{{ g | list }}{{ g | list }}",
        "{% set g = numbers | select('gt', 1) %}{{ 2 in g }}{{ g | list }}",
        "{% set r = numbers | reverse %}{{ r | first }}{{ r | first }}",
        "{% for a in [1, 2] %}{% for b in [1, 2] if b != a %}{{ a }}{{ b }} {% endfor %}{% endfor %}",
        "{% for x in obj.values() %}{{ x }}{{ loop.length }} {% endfor %}",
        "{% for x in [3, 1] %}{{ loop.index if loop.first else 'n' }}{% endfor %}",
        "{% for message in messages[1:] %}{{ message.role }}{% endfor %}",
        "{% for message in messages[::-1] %}{{ loop.index0 }}{{ message['role'] }}{% endfor %}",
    ],
    "macros": [
        "{% macro m(a, b) %}{{ a }}{{ b }}{% endmacro %}{{ m(1, *[2]) }}{{ m(1, **{'b': 2}) }}{{ m(*[1], b=2) }}",
        "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(*[1]) }}{{ m(**{'a': 2}) }}",
        "{% set ns = namespace(o={}) %}{% for k, v in obj.items() %}{% set ns.o = dict(ns.o, **{k: v}) %}{% endfor %}{{ ns.o }}",
        "{% macro m() %}a{% endmacro %}{{ m() }}",
        "{% macro m(a, b=2) %}{{ a }}{{ b }}{% endmacro %}{{ m(1) }}{{ m(1, 3) }}{{ m(b=5, a=4) }}{{ m() }}",
        "{% macro m(a, b=a) %}{{ a }}{{ b }}{% endmacro %}{{ m(1) }}",
        "{% macro m(a=b, b=1) %}[{{ a }}{{ b }}]{% endmacro %}{{ m() }}",
        "{% macro m(a) %}{{ a is defined }}{% endmacro %}{{ m() }}",
        "{% macro m(a) %}{{ a.x }}{% endmacro %}{{ m() }}",
        "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}",
        "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(b=2) }}",
        "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, a=2) }}",
        "{% macro m(a, a) %}{% endmacro %}",
        "{% macro m(a=1, b) %}{% endmacro %}",
        "{% macro m(x) %}{{ x }}{{ i }}{{ late }}{% endmacro %}{% set late = 'L' %}{{ m(1) }}",
        "{% macro m() %}{{ z }}{% endmacro %}{% set z = 1 %}{{ m() }}{% set z = 2 %}{{ m() }}",
        "{{ m() }}{% macro m() %}a{% endmacro %}",
        "{% macro m(n) %}{{ n }}{% if n > 0 %}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(3) }}",
        "{% macro m() %}{% set i = 5 %}{{ i }}{% endmacro %}{{ m() }}{{ i }}",
        "{% macro m() %}a{% endmacro %}{% call m() %}b{% endcall %}",
        "{% macro m() %}{{ caller() }}{% endmacro %}{{ m() }}",
        "{% macro m(caller) %}{{ caller() }}{% endmacro %}{% call m() %}b{% endcall %}",
        "{% call 5 %}{% endcall %}",
        "{% call range(3) %}{% endcall %}",
        "{% macro m() %}x{% endmacro %}{{ m() | upper }}{{ m() ~ 'y' }}{{ m() + 'z' }}{{ m().upper() }}",
        "{% if true %}{% macro m() %}a{% endmacro %}{% endif %}{{ m() }}",
        "{% for x in [1, 2] %}{% macro m() %}{{ x }}{% endmacro %}{{ m() }}{% endfor %}",
        "{% for x in [1] %}{% macro m() %}a{% endmacro %}{% endfor %}{{ m() }}",
        "{% macro m() %}{% macro n() %}{{ q }}{% endmacro %}{% set q = 3 %}{{ n() }}{% endmacro %}{{ m() }}",
        "{% macro m(a) %}{% for x in a %}{{ x }}{% endfor %}{% endmacro %}{{ m([1, 2]) }}",
        "{% macro m(a) -%}\n  {{ a }}\n{%- endmacro %}[{{ m(1) }}]",
        "{% macro m(*args) %}{% endmacro %}",
        "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(a=1, **{'a': 2}) }}",
        "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(a=1, a=2) }}",
        "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(**5) }}",
        "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(a=1, 2) }}",
        "{% macro m(a) %}{{ a }}{% endmacro %}{{ [1, 2] | map('m') | list }}",
        "{% set f = range %}{{ f(2) | list }}",
        "{% macro m(n) %}{{ m(n + 1) }}{% endmacro %}{{ m(0) }}",
        "{% macro true() %}{% endmacro %}",
        "{% macro m %}{% endmacro %}",
        "{% macro a(x) %}<{{ x }}>{% endmacro %}{% macro b(x) %}{{ a(x) }}{{ a(x ~ x) }}{% endmacro %}{{ b('q') }}",
        "{% macro m(loop) %}{{ loop }}{% endmacro %}{% for x in [1] %}{{ m(loop.index) }}{% endfor %}",
        "{% macro m() %}{{ loop }}{% endmacro %}{% for x in [1] %}[{{ m() }}]{% endfor %}",
        "{% for x in [1] %}{% macro m() %}{{ loop.index }}{% endmacro %}[{{ m() }}]{% endfor %}",
        "{% macro m(a, b='}') %}{{ a ~ b }}{% endmacro %}{{ m('{') }}",
    ],
    "errors": [
        "{{ 1 + }}",
        "{{ * 1 }}",
        "{{ (1 }}",
        "{{ [1 }}",
        "{{ {1} }}",
        "{{ {1: } }}",
        "{{ 1 2 }}",
        "{{ a b }}",
        "{{ 'abc }}",
        "{{ x. }}",
        "{{ x.1.5 }}",
        "{{ x[] }}",
        "{{ x | }}",
        "{{ x is }}",
        "{{ f(a=) }}",
        "{{ f(,) }}",
        "{{ ! }}",
        "{{ a ? b }}",
        "{{ a && b }}",
        "{{ a === b }}",
        "{{ ) }}",
        "{{ [) }}",
        "{{ 1 if }}",
        "{{ not }}",
        "{{ 1 not 2 }}",
        "{{ a = 1 }}",
        "{{ '\\x4' }}",
        "{{ '\\u12' }}",
        "{% include 'x' %}",
        "{% import 'x' as y %}",
        "{% from 'x' import y %}",
        "{% extends 'x' %}",
        "{% set x = 1 ",
        "{{ x",
        "{% for %}",
        "{% with a %}{% endwith %}",
        "{% filter %}{% endfilter %}",
        "{% call %}{% endcall %}",
        "{% macro %}{% endmacro %}",
        "{{ raise_exception('Conversation roles must alternate') }}",
        "{% if messages[0].role != 'user' %}{{ raise_exception('first must be user') }}{% endif %}",
        "{{ $ }}",
        "{{ @x }}",
        "{{ x;y }}",
        "{% if a; %}{% endif %}",
        "{{ \"unbalanced' }}",
        "{{ x[1:2:3:4] }}",
        "{{ f(**a, *b) }}",
        "{{ f(*a, *b) }}",
        "{{ {**a} }}",
        "{{ [*a] }}",
        "{{ lambda x: x }}",
        "{% generation %}",
        "{% endgeneration %}",
    ],
    "chat": [
        "{{ bos }}{% for m in messages %}<|{{ m.role }}|>\n{{ m.content }}\n{% endfor %}{% if add %}<|assistant|>\n{% endif %}",
        "{%- for m in messages %}\n    {%- if m['role'] == 'user' %}\n        {{- '[INST] ' + m['content'] + ' [/INST]' }}\n    {%- elif m.tool_calls is defined and m.tool_calls is not none %}\n        {{- m.tool_calls | tojson }}\n    {%- endif %}\n{%- endfor %}",
        "{% set ns = namespace(found=false, index=messages|length - 1) %}{% for m in messages[::-1] %}{% set index = (messages|length - 1) - loop.index0 %}{% if m.role == 'user' and not ns.found %}{% set ns.found = true %}{% set ns.index = index %}{% endif %}{% endfor %}{{ ns.found }}{{ ns.index }}",
        "{%- if messages[0]['role'] == 'system' %}{%- set system = messages[0]['content'] | trim %}{%- set rest = messages[1:] %}{%- else %}{%- set system = '' %}{%- set rest = messages %}{%- endif %}{{ system }}|{{ rest | length }}",
        "{%- set content = '<think>\\nhm\\n</think>\\n\\nanswer' %}{%- if '</think>' in content %}{%- set reasoning = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}{%- set content = content.split('</think>')[-1].lstrip('\\n') %}{%- endif %}[{{ reasoning }}][{{ content }}]",
        "{%- for m in messages %}{%- if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}{{- raise_exception('roles must alternate') }}{%- endif %}{%- endfor %}",
        "{%- for tc in messages[2].tool_calls %}{%- if tc.function %}{%- set tc = tc.function %}{%- endif %}{{- '<tool_call>' + tc.name }}\n{% set a = tc.arguments %}{% for k, v in a.items() %}<k>{{ k }}</k><v>{{ v | tojson(ensure_ascii=False) if v is not string else v }}</v>{% endfor %}</tool_call>{%- endfor %}",
        "{{ messages | selectattr('role', 'equalto', 'system') | map(attribute='content') | list | first | default('none') }}",
        "{%- macro schema(x, depth) -%}{%- if x is mapping -%}{%- for k, v in x.items() | sort -%}{{ '\\n' + '  ' * depth + k }}{{ schema(v, depth + 1) }}{%- endfor -%}{%- else -%}: {{ x }}{%- endif -%}{%- endmacro -%}{{ schema(obj, 1) }}",
        "{{ '%s, %02d' % (strftime_now('%B'), strftime_now('%d') | int) }}",
        "{% if tools is defined and tools %}t{% elif tools is not defined %}none{% endif %}{% if not tools %}!{% endif %}",
        "{{ (messages | last).tool_calls[0].function.arguments | items | list }}",
        "{% set loop_messages = messages %}{% for message in loop_messages %}{% set content = '<' + message['role'] + '>' + (message['content'] or '') | trim %}{% if loop.index0 == 0 %}{% set content = 'BOS' + content %}{% endif %}{{ content }}{% endfor %}",
        "{{ '<tool>' + (obj | tojson | safe) }}",
        "{{ messages[0].content | safe + '<x>' }}",
    ],
}


def cases():
    for group, block in EXPRESSIONS.items():
        # A line that does not start at the block's indent continues the line before it.
        for line in block.strip("\n").replace("\n        b\"", "\nb\"").split("\n        "):
            if line.strip():
                yield group, "{{ " + line.strip() + " }}"
    for group, templates in TEMPLATES.items():
        for template in templates:
            yield group, template


# Times for strftime: ends of years, of months and of half days.
MOMENTS = [
    datetime.datetime(2026, 1, 2, 15, 4, 5, 678901), datetime.datetime(2024, 2, 29), datetime.datetime(2024, 12, 31, 23, 59, 59),
    datetime.datetime(2021, 1, 3, 0, 0, 1), datetime.datetime(2023, 1, 1, 12), datetime.datetime(2020, 12, 28, 11, 59),
    datetime.datetime(2027, 1, 3, 1, 2, 3), datetime.datetime(1999, 10, 9, 13), datetime.datetime(2000, 5, 31, 9, 8, 7, 6),
]
FORMATS = [
    "%a %A %b %B %h", "%d %e %-d %j %-j", "%m %-m", "%Y %y", "%H %-H %I %-I %M %S %p", "%D %F %T %R",
    "%%|%%%d", "é%dé", "",
]


# Templates in the environment of lm-evaluation-harness (lm_eval/utils.py).
STRICT = [
    "{{ s }}\n", "{{ s }}\r\n", "\n", "a\n\n", "{{ s }} \n{% if yes %}\n  a\n{% endif %}\nb",
    "  {% if yes %}  \n  {% else %}\n x {% endif %}  \n y", "{%- if yes -%}\n a \n{%- endif -%}\n b", "{% if yes +%}\n a{% endif %}",
    "a\n  {# c #}\nb", "a\n  {#- c -#}\nb", "a {# c +#}\nb", "a\n {% raw %}\n{{ s }}\n{% endraw %}\n b", "a {% raw -%}\n x {%- endraw -%}\n b",
    "{% for n in numbers %}\n{{ n }}\n{% endfor %}\n", "{% for u in users %}{{ u.name }}\n{% endfor %}", "{% set x = 1 %}\n{{ x }}", "{{ '\n' }}\n",
    "{{ nope }}", "a{{ nope }}b", "{% if nope %}a{% endif %}", "{{ not nope }}", "{{ nope or 1 }}", "{{ 1 or nope }}", "{{ nope and 1 }}",
    "{% for x in nope %}{% endfor %}", "{{ nope | length }}", "{{ nope | list }}", "{{ nope | join }}", "{{ nope | upper }}", "{{ nope | trim }}",
    "{{ nope ~ 'a' }}", "{{ nope + 'a' }}", "{{ nope == 1 }}", "{{ 1 == nope }}", "{{ 'a' == nope }}", "{{ nope != 'a' }}", "{{ nope == nope }}",
    "{{ nope in ['a'] }}", "{{ 'a' in nope }}", "{{ nope.x }}", "{{ nope[0] }}", "{{ nope() }}", "{{ nope is defined }}", "{{ nope is undefined }}",
    "{{ nope is none }}", "{{ nope is string }}", "{{ nope | default('d') }}", "{{ nope | d }}", "{{ nope.x | default('d') }}", "{{ obj.nope }}",
    "{{ obj.nope | default('d') }}", "{{ obj['nope'] }}", "{{ obj['nope'] is defined }}", "{{ obj.nope is defined }}", "{{ numbers[9] }}",
    "{{ numbers[9] is defined }}", "{{ s.nope }}", "{{ 'a' if no }}", "{{ 'a' if yes }}", "{{ ('a' if no) is defined }}", "{{ none_list | first }}",
    "{{ none_list | last }}", "{{ users | map(attribute='tags') | list }}", "{{ users | map(attribute='nope', default=1) | list }}",
    "{% if nope is defined and nope %}a{% else %}b{% endif %}", "{% set x = nope %}a", "{% set x = nope %}{{ x }}", "{{ [nope] | length }}",
    "{% macro f(x) %}{{ x }}{% endmacro %}{{ f() }}", "{% macro f(x) %}a{% endmacro %}{{ f() }}", "{% if yes %}{{ nope }}{% endif %}", "{% if no %}{{ nope }}{% endif %}",
    "{{ nope if no else 'x' }}", "{% set v %}\n{{ s }}\n{% endset %}\n[{{ v }}]", "{{ loop }}", "{% for n in numbers %}{{ loop.previtem }}{% endfor %}",
]


def strict_environment():
    return jinja2.Environment(loader=jinja2.BaseLoader(), undefined=jinja2.StrictUndefined, keep_trailing_newline=True)


def main():
    env = environment()
    strict = strict_environment()
    out = []
    for group, template in [*cases(), *(("strict", template) for template in STRICT)]:
        case = {"group": group, "template": template}
        try:
            case["out"] = (strict if group == "strict" else env).from_string(template).render(**CONTEXT)
        except Exception as err:  # Ingot must also fail, whatever the type of the error
            case["err"] = f"{type(err).__name__}: {err}"
        if " at 0x" in case.get("out", ""):
            continue  # the output has the address of an object, which differs between runs
        out.append(case)
    lines = ",\n".join(json.dumps(case, ensure_ascii=True) for case in out)
    times = [
        {"time": m.isoformat(timespec="microseconds") + "Z", "format": f, "out": m.strftime(f)} for m in MOMENTS for f in FORMATS
    ]
    text = '{"context": ' + json.dumps(CONTEXT, ensure_ascii=True)
    text += ',\n"times": [\n' + ",\n".join(map(json.dumps, times)) + "\n]"
    text += ',\n"cases": [\n' + lines + "\n]}\n"
    pathlib.Path(__file__).with_name("conformance.json").write_text(text)
    print(len(out), "cases,", sum("err" in case for case in out), "of them errors")


if __name__ == "__main__":
    main()
