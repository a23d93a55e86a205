/**
 * Configurations that only one side takes, or of which the two tell different things, on purpose. A row holds
 * for a file when each of its patterns is found.
 */
export interface ConfigurationDifference {
  readonly name: string
  readonly reason: string
  /** Who refuses the file; `both` when only the messages differ, `neither` when only what was understood. */
  readonly refusedBy: 'us' | 'reference' | 'both' | 'neither'
  /** In one of the problems that we tell. */
  readonly ours?: RegExp
  /** In the reference's message. */
  readonly reference?: RegExp
  /** In the file. */
  readonly file?: RegExp
}

/** A `<<` below a field of the same map, roughly. */
const mergeAfterFields = /[\w<]+: +\S[^\n]*\n\s+<<:/

const yaml = 'error loading config file: yaml: '

export const configurationDifferences: readonly ConfigurationDifference[] = [
  {
    name: 'a key twice in one map',
    reason:
      'YAML forbids it; the reference keeps the second, and with the first a whole list can be lost unseen',
    refusedBy: 'us',
    ours: /duplicated mapping key/,
  },
  {
    name: 'what comes after the first document',
    reason: 'the reference stops reading where the first document seems to end, whatever comes after it',
    refusedBy: 'us',
    ours: /line \d+: end of the stream or a document separator/,
  },
  {
    name: 'what comes after the mark at the end of the first document',
    reason: 'the reference stops reading there; we read on, and tell of what is no YAML',
    refusedBy: 'us',
    ours: /yaml: line \d+: /,
    file: /\n(?:---|\.\.\.)\s/,
  },
  {
    name: 'tags that the language does not have',
    reason: 'the reference takes a value of an unknown type for a text; !!binary hides what a limit is about',
    refusedBy: 'us',
    ours: /line \d+: (?:unknown \w+ tag|cannot resolve a node|tag |named tag|unidentified)/,
  },
  {
    name: 'fields farther left than those before',
    reason: 'YAML forbids it, and readers do not agree which map the later fields belong to',
    refusedBy: 'us',
    ours: /line \d+: bad indentation|deficient indentation|a multiline key|a line break is expected/,
  },
  {
    name: 'metadata',
    reason: 'a field that later versions of the reference have',
    refusedBy: 'reference',
    reference: /unknown key 'metadata'/,
  },
  {
    name: 'metadata among other problems',
    reason: 'a field that later versions of the reference have',
    refusedBy: 'both',
    reference: /unknown key 'metadata'/,
  },
  {
    name: 'a * within the value of share_threshold',
    reason: 'later versions of the reference take it anywhere in the value',
    refusedBy: 'reference',
    reference: /share_threshold can only be used with wildcard values \(ending/,
  },
  {
    name: 'what share_threshold needs',
    reason: "later versions of the reference say (containing '*'), for it may stand anywhere",
    refusedBy: 'both',
    reference: /share_threshold can only be used with wildcard values \(ending/,
  },
  {
    name: 'escaped halves of a character',
    reason: 'as in JSON, two halves of one character are right; half of one is told of by nobody else',
    refusedBy: 'reference',
    reference: /found invalid Unicode character escape code/,
  },
  {
    name: 'directives',
    reason: 'YAML asks to pass over those that are unknown',
    refusedBy: 'reference',
    reference: /found (?:unexpected non-alpha|unknown directive|extremely long version)|directive name/,
  },
  {
    name: 'names of anchors, and other details of YAML',
    reason: 'YAML 1.2 allows what 1.1 does not: more characters in an anchor, a document mark within a text',
    refusedBy: 'reference',
    reference: /yaml: .*(?:did not find expected|could not find expected|found character that cannot start)/,
  },
  {
    name: 'details of texts in quotes',
    reason: 'YAML 1.1 allowed what 1.2 does not',
    refusedBy: 'us',
    ours: /unknown escape sequence|expected hexadecimal/,
  },
  {
    name: 'aliases within what they stand for, tabs, and what can be merged',
    reason:
      'an alias of an earlier anchor of this name is meant; tabs may stand in empty lines; nothing adds nothing',
    refusedBy: 'reference',
    reference: /contains itself|found a tab character|map merge requires/,
  },
  {
    name: 'nothing, with the tag of a map or a list',
    reason: 'the reference passes over it where a text is asked for',
    refusedBy: 'us',
    ours: /cannot be a (?:map|list)/,
    file: /!!(?:map|seq)/,
  },
  {
    name: 'where an anchor, a key or a value ends',
    reason: 'YAML 1.1 ends an anchor at any sign, and a key at `:` only with a space after it',
    refusedBy: 'reference',
    reference: /cannot unmarshal !!|mapping values are not allowed|unknown key '[^']*:'/,
    file: /&\w+\W|:[,}\]]/,
  },
  {
    name: 'where an anchor, a key or a value ends, in messages',
    reason: 'as before, and YAML 1.1 takes `?` within brackets for an indicator without a space',
    refusedBy: 'both',
    reference: /unknown key|not of type string/,
    file: /&\w*[^\w\s]|\?\S|\? :|!!map :|::|:[,}\]]/,
  },
  {
    name: 'fields that are merged after others',
    reason:
      'YAML prefers a field of the map itself, wherever << stands; the reference the one that comes last',
    refusedBy: 'reference',
    file: mergeAfterFields,
  },
  {
    name: 'fields that are merged after others, in what is understood',
    reason:
      'YAML prefers a field of the map itself, wherever << stands; the reference the one that comes last',
    refusedBy: 'neither',
    file: mergeAfterFields,
  },
  {
    name: 'fields that are merged after others, that are wrong then',
    reason:
      'YAML prefers a field of the map itself, wherever << stands; the reference the one that comes last',
    refusedBy: 'us',
    file: mergeAfterFields,
  },
  {
    name: 'line breaks of YAML 1.1',
    reason: 'U+0085, U+2028 and U+2029 are characters like any other in YAML 1.2',
    refusedBy: 'us',
    file: /[\x85\u2028\u2029]/,
  },
  {
    name: 'line breaks of YAML 1.1, in the reference',
    reason: 'U+0085, U+2028 and U+2029 are characters like any other in YAML 1.2',
    refusedBy: 'reference',
    file: /[\x85\u2028\u2029]/,
  },
  {
    name: 'line breaks of YAML 1.1, in messages',
    reason: 'U+0085, U+2028 and U+2029 are characters like any other in YAML 1.2',
    refusedBy: 'both',
    file: /[\x85\u2028\u2029]/,
  },
  {
    name: 'line breaks of YAML 1.1, in texts',
    reason: 'U+0085, U+2028 and U+2029 are characters like any other in YAML 1.2',
    refusedBy: 'neither',
    file: /[\x85\u2028\u2029]/,
  },
  {
    name: 'keys that are booleans in YAML 1.1',
    reason: 'y, n, yes, no, on and off are texts in YAML 1.2, so that as a key they are unknown ones',
    refusedBy: 'both',
    ours: /unknown key /,
    reference: /not of type string: (?:true|false)/,
  },
  {
    name: 'a : before a comma',
    reason: 'YAML 1.1 takes it for a part of the text within brackets; to YAML 1.2 it ends a key',
    refusedBy: 'us',
    ours: /missed comma/,
    file: /:,/,
  },
  {
    name: 'a ? without a space',
    reason: 'YAML 1.1 takes it for an indicator within brackets; to YAML 1.2 it is a part of the key',
    refusedBy: 'us',
    ours: /unknown key '\?/,
  },
  {
    name: 'how numbers and maps are printed',
    reason: 'we quote what was written, the reference what it was read as',
    refusedBy: 'both',
    ours: /not of type string: |list of type other than map: /,
    reference: /not of type string: |list of type other than map: /,
  },
  {
    name: 'the YAML library tells of something else first',
    reason: 'a file that is no YAML to us is looked at no further',
    refusedBy: 'both',
    ours: new RegExp(`^${yaml}`),
  },
]
