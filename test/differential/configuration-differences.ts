/**
 * Intentional differences: configurations that only one side accepts, or about which the two report different
 * problems. A row applies to a file when each of its patterns matches.
 */
export interface ConfigurationDifference {
  readonly name: string
  readonly reason: string
  /**
   * Which side rejects the file; `both` when only the messages differ, `neither` when only the meaning
   * differs.
   */
  readonly rejectedBy: 'us' | 'reference' | 'both' | 'neither'
  /** Matches one of the service's problems. */
  readonly ours?: RegExp
  /** Matches the reference's message. */
  readonly reference?: RegExp
  /** Matches the file. */
  readonly file?: RegExp
}

/** Approximates a `<<` below a field of the same map. */
const mergeAfterFields = /[\w<]+: +\S[^\n]*\n\s+<<:/

const yaml = 'error loading config file: yaml: '

export const configurationDifferences: readonly ConfigurationDifference[] = [
  {
    name: 'a duplicate key in a map',
    reason:
      'YAML forbids it; the reference keeps the second, so that a whole list can be lost silently with the first',
    rejectedBy: 'us',
    ours: /duplicated mapping key/,
  },
  {
    name: 'text after the first document',
    reason: 'the reference stops reading where the first document seems to end, whatever follows',
    rejectedBy: 'us',
    ours: /line \d+: end of the stream or a document separator/,
  },
  {
    name: 'text after the mark at the end of the first document',
    reason: 'the reference stops reading there; the service reads on, and reports invalid YAML',
    rejectedBy: 'us',
    ours: /yaml: line \d+: /,
    file: /\n(?:---|\.\.\.)\s/,
  },
  {
    name: 'tags that the language does not have',
    reason: 'the reference treats a value of an unknown type as text; !!binary hides the key of a limit',
    rejectedBy: 'us',
    ours: /line \d+: (?:unknown \w+ tag|cannot resolve a node|tag |named tag|unidentified)/,
  },
  {
    name: 'fields with less indentation than those before',
    reason: 'YAML forbids it, and parsers disagree about the map of the later fields',
    rejectedBy: 'us',
    ours: /line \d+: bad indentation|deficient indentation|a multiline key|a line break is expected/,
  },
  {
    name: 'metadata',
    reason: 'a field that later versions of the reference have',
    rejectedBy: 'reference',
    reference: /unknown key 'metadata'/,
  },
  {
    name: 'metadata among other problems',
    reason: 'a field that later versions of the reference have',
    rejectedBy: 'both',
    reference: /unknown key 'metadata'/,
  },
  {
    name: 'a * within the value of share_threshold',
    reason: 'later versions of the reference accept it anywhere in the value',
    rejectedBy: 'reference',
    reference: /share_threshold can only be used with wildcard values \(ending/,
  },
  {
    name: 'a share_threshold without its requirements',
    reason: "later versions of the reference say (containing '*'), for it may stand anywhere",
    rejectedBy: 'both',
    reference: /share_threshold can only be used with wildcard values \(ending/,
  },
  {
    name: 'escaped halves of a character',
    reason: 'as in JSON, a surrogate pair is valid; only the service reports an unpaired surrogate',
    rejectedBy: 'reference',
    reference: /found invalid Unicode character escape code/,
  },
  {
    name: 'directives',
    reason: 'YAML requires unknown ones to be ignored',
    rejectedBy: 'reference',
    reference: /found (?:unexpected non-alpha|unknown directive|extremely long version)|directive name/,
  },
  {
    name: 'names of anchors, and other details of YAML',
    reason: 'YAML 1.2 allows what 1.1 does not: more characters in an anchor, a document mark within a text',
    rejectedBy: 'reference',
    reference: /yaml: .*(?:did not find expected|could not find expected|found character that cannot start)/,
  },
  {
    name: 'details of texts in quotes',
    reason: 'YAML 1.1 allowed what 1.2 does not',
    rejectedBy: 'us',
    ours: /unknown escape sequence|expected hexadecimal/,
  },
  {
    name: 'recursive aliases, tabs, and merged values',
    reason:
      'the alias refers to an earlier anchor of this name; empty lines may have tabs; merging null adds no field',
    rejectedBy: 'reference',
    reference: /contains itself|found a tab character|map merge requires/,
  },
  {
    name: 'null, with the tag of a map or a list',
    reason: 'the reference ignores it where a text is required',
    rejectedBy: 'us',
    ours: /cannot be a (?:map|list)/,
    file: /!!(?:map|seq)/,
  },
  {
    name: 'where an anchor, a key or a value ends',
    reason: 'YAML 1.1 ends an anchor at any sign, and a key at `:` only with a space after it',
    rejectedBy: 'reference',
    reference: /cannot unmarshal !!|mapping values are not allowed|unknown key '[^']*:'/,
    file: /&\w+\W|:[,}\]]/,
  },
  {
    name: 'where an anchor, a key or a value ends, in messages',
    reason: 'as before, and YAML 1.1 treats `?` within brackets as an indicator without a space',
    rejectedBy: 'both',
    reference: /unknown key|not of type string/,
    file: /&\w*[^\w\s]|\?\S|\? :|!!map :|::|:[,}\]]/,
  },
  {
    name: 'fields that are merged after others',
    reason: 'YAML prefers a field of the map itself, wherever << is; the reference prefers the last one',
    rejectedBy: 'reference',
    file: mergeAfterFields,
  },
  {
    name: 'fields that are merged after others, in the meaning',
    reason: 'YAML prefers a field of the map itself, wherever << is; the reference prefers the last one',
    rejectedBy: 'neither',
    file: mergeAfterFields,
  },
  {
    name: 'fields that are merged after others, that are invalid then',
    reason: 'YAML prefers a field of the map itself, wherever << is; the reference prefers the last one',
    rejectedBy: 'us',
    file: mergeAfterFields,
  },
  {
    name: 'line breaks of YAML 1.1',
    reason: 'U+0085, U+2028 and U+2029 are characters like any other in YAML 1.2',
    rejectedBy: 'us',
    file: /[\x85\u2028\u2029]/,
  },
  {
    name: 'line breaks of YAML 1.1, in the reference',
    reason: 'U+0085, U+2028 and U+2029 are characters like any other in YAML 1.2',
    rejectedBy: 'reference',
    file: /[\x85\u2028\u2029]/,
  },
  {
    name: 'line breaks of YAML 1.1, in messages',
    reason: 'U+0085, U+2028 and U+2029 are characters like any other in YAML 1.2',
    rejectedBy: 'both',
    file: /[\x85\u2028\u2029]/,
  },
  {
    name: 'line breaks of YAML 1.1, in texts',
    reason: 'U+0085, U+2028 and U+2029 are characters like any other in YAML 1.2',
    rejectedBy: 'neither',
    file: /[\x85\u2028\u2029]/,
  },
  {
    name: 'keys that are booleans in YAML 1.1',
    reason: 'y, n, yes, no, on and off are texts in YAML 1.2, so they are unknown as keys',
    rejectedBy: 'both',
    ours: /unknown key /,
    reference: /not of type string: (?:true|false)/,
  },
  {
    name: 'a : before a comma',
    reason: 'YAML 1.1 treats it as a part of the text within brackets; in YAML 1.2 it ends a key',
    rejectedBy: 'us',
    ours: /missed comma/,
    file: /:,/,
  },
  {
    name: 'a ? without a space',
    reason: 'YAML 1.1 treats it as an indicator within brackets; in YAML 1.2 it is a part of the key',
    rejectedBy: 'us',
    ours: /unknown key '\?/,
  },
  {
    name: 'how numbers and maps are printed',
    reason: 'the service quotes the text, the reference the parsed value',
    rejectedBy: 'both',
    ours: /not of type string: |list of type other than map: /,
    reference: /not of type string: |list of type other than map: /,
  },
  {
    name: 'the YAML library reports another problem first',
    reason: 'a file that is invalid YAML for the service is not checked further',
    rejectedBy: 'both',
    ours: new RegExp(`^${yaml}`),
  },
]
