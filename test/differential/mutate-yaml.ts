import fc from 'fast-check'

/** Files that both accept, with most features of the language. */
export const seedFiles: readonly string[] = [
  `
domain: shop # what
descriptors:
  - key: user
    value: "al*"
    share_threshold: true
    rate_limit: {unit: minute, requests_per_unit: 3, name: x, replaces: [{name: y}]}
    descriptors:
      - key: 'path'
        shadow_mode: true
        rate_limit:
          unlimited: true
      - key: path
        value: 10
  - key: user
    value: >-
      folded
      text
    detailed_metric: yes
    descriptors: []
  - key: user
    rate_limit:
      unit: HOUR
      requests_per_unit: 0x10
`,
  `%YAML 1.1
--- # one
{"domain": "d", "descriptors":
  [{"key": "k", "value": "v", "rate_limit": {"unit": "day", "requests_per_unit": 1}},
  {? key : a_b, value : !!str 5, detailed_metric: Yes, descriptors: [{key: c, rate_limit: &l {unit: HOUR}},
    {key: "d\\u00e9\\n", rate_limit: *l, quota_mode: true, value_to_metric: off}]}]}
...
`,
  `domain: mongo_cps
descriptors:
  - key: database
    value: users
    rate_limit:
      unit: second
      requests_per_unit: 500

  - key: database
    value: default
    rate_limit:
      unit: Second
      requests_per_unit: 1_000
  - key: generic_key
    descriptors:
    - {key: remote_address, rate_limit: {unit: week, requests_per_unit: 5}}
    - {key: remote_address, value: 10.0.0.1, rate_limit: {name: other, unlimited: true}}
`,
  `domain: "a"
descriptors: &all
- &one
  key: k
  rate_limit: &limit
    unit: "year"
    requests_per_unit: 4294967295
- <<: *one
  key: k2
  value: ~
- key: k3
  rate_limit:
    <<: *limit
    name: null
- key: k4
  rate_limit:
`,
]

/** Texts that a typo, or an attacker, puts into a file. */
const pieces = [
  ...'-:{}[]*&!|>\'"%@#,?~ \n\r\t\0\ufeff=<.',
  '<<',
  '<<: *one',
  '<<: [*one, *limit]',
  '&one',
  '*one',
  '!!map ',
  '!!int ',
  '!!str ',
  '!!binary ',
  '!x ',
  '  ',
  '---\n',
  '...\n',
  '0.5',
  '1e3',
  '.inf',
  '-1',
  '0o17',
  '0b11',
  '0x1F',
  '1_000',
  '010',
  '+5',
  '4294967296',
  '18446744073709551616',
  '2001-01-01',
  '1:30',
  'null',
  'true',
  'On',
  'é',
  '\u2028',
  '\u0085',
  '__proto__: ',
  'constructor: x\n',
  'descriptors:',
  'descriptors: x\n',
  '- key: user\n',
  'unit: minute\n',
  'unit: foo\n',
  'unlimited: true\n',
  'requests_per_unit: 5\n',
  'share_threshold: true\n',
  'name: x\n',
  '? a : b\n',
  '- - a\n',
]

/** Values that replace the value of one field. */
const fieldValues = [
  ...[
    '',
    '~',
    'null',
    '""',
    "''",
    '5',
    '-5',
    '0',
    '0.5',
    '1e400',
    'true',
    'no',
    'y',
    '[]',
    '{}',
    '[a]',
    '[{}]',
  ],
  ...[
    '{a: b}',
    '{key: k}',
    '[{key: k}]',
    '[{name: x}]',
    '[{name: ""}]',
    '[~]',
    '"\\x41"',
    "'it''s'",
    '|\n  text',
  ],
  ...[
    'second',
    'SECOND',
    'unknown',
    'UNKNOWN',
    'minutes',
    'mınute',
    ' minute ',
    'a*',
    '*',
    'a*b',
    '4294967295',
  ],
  ...[
    '4294967296',
    '-0',
    '0x10',
    '0b1',
    '0o7',
    '07',
    '08',
    '1_0',
    '1__0',
    '_1',
    '+1',
    '.5',
    '5.',
    '1e3',
    '2001-01-01',
  ],
  ...[
    '12:30',
    '0x',
    '!!str 5',
    '!!int 5',
    '!!int "5"',
    '!!bool yes',
    '!!float 5',
    '!!null x',
    '!!binary aGk=',
    '*x',
  ],
  ...[
    '<<',
    '=',
    '@x',
    '`x',
    '%x',
    '!x y',
    '&a b',
    '- a',
    '"open',
    "'open",
    '{open',
    '[open',
    'a: b',
    'a #b',
    'a#b',
  ],
  ...['"\\ud83d\\ude00"', '"\\ud800"', '"\\z"', '"a\tb"', 'a\tb', '\ta', '\u00a0', 'é'],
]

interface Edit {
  readonly at: number
  readonly drop: number
  readonly put: string
}

const edits = fc.array(
  fc.record<Edit>({
    at: fc.nat(800),
    drop: fc.oneof({ weight: 6, arbitrary: fc.nat(6) }, fc.nat(120)),
    put: fc.oneof({ weight: 6, arbitrary: fc.constantFrom(...pieces) }, fc.string({ maxLength: 4 })),
  }),
  { minLength: 1, maxLength: 3, size: 'max' },
)

/** Arbitrary edits of a file. */
const mangled = fc.tuple(fc.constantFrom(...seedFiles), edits).map(([file, list]) => {
  let text = file
  for (const { at, drop, put } of list) {
    const place = at % (text.length + 1)
    text = text.slice(0, place) + put + text.slice(place + drop)
  }
  return text
})

/** Changes of one line: another value, another name, a duplicate, a removal, or another indentation. */
const retold = fc
  .tuple(
    fc.constantFrom(...seedFiles),
    fc.nat(1000),
    fc.constantFrom('value', 'value', 'value', 'name', 'twice', 'gone', 'indent', 'swap'),
    fc.constantFrom(...fieldValues),
    fc.constantFrom(
      'key',
      'value',
      'unit',
      'rate_limit',
      'metadata',
      'ratelimit',
      'Key',
      '5',
      'true',
      '~',
      '0.5',
      '[a]',
    ),
  )
  .map(([file, nat, what, value, name]) => {
    const lines = file.split('\n')
    const fields = lines.flatMap((line, index) => (/\w+:/.test(line) ? [index] : []))
    const at = fields[nat % fields.length] ?? 0
    const line = lines[at] ?? ''
    const others: Readonly<Record<typeof what, readonly string[]>> = {
      value: [line.replace(/(\w+:)(?: .*)?$/, (_, field) => `${field} ${value}`)],
      name: [line.replace(/\w+(?=:)/, () => name)],
      twice: [line, line],
      gone: [],
      indent: [`${' '.repeat(nat % 5)}${nat % 2 ? line : line.trimStart()}`],
      swap: [lines[at + 1] ?? '', line],
    }
    lines.splice(at, what === 'swap' ? 2 : 1, ...others[what])
    return lines.join('\n')
  })

/** Files that are partly or completely invalid, and some that are valid. */
export const mutatedFiles: fc.Arbitrary<string> = fc.oneof(mangled, retold)
