import { isObject } from '@tollway/chassis/is-object.ts'
import { apiGroup } from '@tollway/crds/resource-kind.ts'
import { constructFromEvents, EVENT_ID, type Event, parseEvents, YAMLException } from 'js-yaml'
import { readAnnotations, type SourcedResource, type SourceProblem } from '../../../kinds/source.ts'
import { checkExpanded, manifestSchema as schema, type YamlLimits, yamlLimits } from '../../../yaml.ts'
import { tollwayNamespace, uuid5 } from './uuid5.ts'

/**
 * A resource in a file. The envelope is validated, the spec is not. The spec of a Secret has its `data` and
 * `stringData`. The origin is `shop/limits.yaml`, `shop/limits.yaml#2`, or in a List
 * `shop/limits.yaml#2.items[0]`.
 */
export type Manifest = Omit<SourcedResource, 'generation'>

interface Manifests {
  readonly manifests: readonly Manifest[]
  /** The documents that could not be read. Other documents of the file are not affected. */
  readonly problems: readonly SourceProblem[]
  /**
   * What is ignored, each once: kinds of other API groups, such as `apps/v1 Deployment`, and Envoy
   * configurations.
   */
  readonly ignored: readonly string[]
}

interface ManifestLimits extends YamlLimits {
  /**
   * The maximum number of documents in a file, including empty ones, and of the items of all Lists together.
   */
  readonly maxDocuments: number
  /** The maximum number of invalid documents in a file. With more, the whole file is rejected. */
  readonly maxProblems: number
}

const manifestLimits: ManifestLimits = {
  ...yamlLimits,
  maxDocuments: 10_000,
  maxProblems: 100,
}

/**
 * Reads a file of Kubernetes manifests. An `error` means that the text is not YAML or exceeds a limit, so
 * that nothing is known of its documents. `path` is only used for origins.
 */
export function parseManifests(
  text: string,
  path: string,
  limits: ManifestLimits = manifestLimits,
): Manifests | { readonly error: SourceProblem } {
  const rejected = (message: string) => ({ error: { origin: path, message } })
  let documents: readonly (readonly Event[])[]
  try {
    documents = splitDocuments(parseEvents(text, { maxDepth: limits.maxDepth }))
  } catch (error) {
    return rejected(yamlMessage(error))
  }
  if (documents.length > limits.maxDocuments) {
    return rejected(`${documents.length} documents; at most ${limits.maxDocuments} are allowed in a file`)
  }
  const found = { manifests: [] as Manifest[], problems: [] as SourceProblem[], ignored: new Set<string>() }
  for (const entry of readEntries(text, path, documents, limits)) {
    const read = 'problem' in entry ? entry : readEnvelope(entry)
    if ('problem' in read) found.problems.push({ origin: entry.origin, message: read.problem })
    else if ('ignored' in read) found.ignored.add(read.ignored)
    else found.manifests.push(read)
    if (found.problems.length > limits.maxProblems) {
      return rejected(
        `more than ${limits.maxProblems} bad documents; the first: ${found.problems[0]?.message}`,
      )
    }
    if (found.manifests.length > limits.maxDocuments) {
      return rejected(`a file has more than the ${limits.maxDocuments} resources that are allowed`)
    }
  }
  return { ...found, ignored: [...found.ignored] }
}

/** Splits the events of a file into documents, so that an invalid document is rejected without the others. */
function splitDocuments(events: readonly Event[]): readonly (readonly Event[])[] {
  const starts = events.flatMap((event, index) => (event.type === EVENT_ID.DOCUMENT ? [index] : []))
  return starts.map((start, index) => events.slice(start, starts[index + 1]))
}

interface Entry {
  readonly origin: string
  /** The line on which the document starts, from 1. */
  readonly line: number
  readonly value: unknown
}

interface Problem {
  readonly origin: string
  readonly problem: string
}

/** Yields the documents that are not empty. The items of a List are yielded in its place. */
function* readEntries(
  text: string,
  path: string,
  documents: readonly (readonly Event[])[],
  limits: ManifestLimits,
): Generator<Entry | Problem> {
  const lineAt = countLines(text)
  const filled = documents.filter(events => !isEmptyDocument(text, events))
  for (const [index, events] of filled.entries()) {
    const numbered = `${path}#${index + 1}`
    const origin = filled.length === 1 ? path : numbered
    const line = lineAt(Math.max(0, ...events.slice(1, 2).map(findTextStart)))
    let value: unknown
    try {
      value = construct(text, events, limits)
    } catch (error) {
      yield { origin, problem: yamlMessage(error, line) }
      continue
    }
    if (!isObject(value) || value['kind'] !== 'List') yield { origin, line, value }
    else if (!Array.isArray(value['items']))
      yield { origin, problem: `line ${line}: items: a List needs a list` }
    else
      for (const [at, item] of value['items'].entries())
        yield { origin: `${numbered}.items[${at}]`, line, value: item }
  }
}

function construct(text: string, events: readonly Event[], limits: ManifestLimits): unknown {
  const [value] = constructFromEvents([...events], {
    source: text,
    schema,
    maxAliases: limits.maxAliases,
    maxTotalMergeKeys: limits.maxTotalMergeKeys,
  })
  checkExpanded(value, limits)
  return value
}

/** Returns whether a document has nothing but comments. Such a document is ignored, as by kubectl. */
function isEmptyDocument(text: string, events: readonly Event[]): boolean {
  const [, content, end] = events
  if (content?.type !== EVENT_ID.SCALAR || end?.type !== EVENT_ID.POP) return false
  return /^(~|null|Null|NULL)?$/.test(
    text.slice(content.valueStart, Math.max(content.valueStart, content.valueEnd)),
  )
}

type Envelope = Manifest | { readonly ignored: string } | { readonly problem: string }

/** Validates apiVersion, kind, name and namespace as the API server does. */
function readEnvelope({ origin, line, value }: Entry): Envelope {
  const problem = (field: string, found: unknown, allowed: string) => ({
    problem: `line ${line}: ${field}: found ${describeFoundValue(found)}, expected ${allowed}`,
  })
  if (!isObject(value))
    return { problem: `line ${line}: not a mapping of apiVersion, kind, metadata and spec` }
  const { apiVersion, kind, metadata } = value
  // A folder may contain the proxy's configuration beside its limits.
  if (apiVersion === undefined && kind === undefined && isObject(value['static_resources'])) {
    return { ignored: 'an Envoy configuration' }
  }
  if (apiVersion === undefined && kind === undefined && 'domain' in value)
    return { problem: isReferenceConfiguration }
  if (typeof apiVersion !== 'string' || apiVersion === '')
    return problem('apiVersion', apiVersion, 'a group/version')
  if (typeof kind !== 'string' || !/^[A-Za-z][A-Za-z0-9]{0,62}$/.test(kind)) {
    return problem('kind', kind, 'the name of a kind')
  }
  const isSecret = apiVersion === 'v1' && kind === 'Secret'
  if (!isSecret && apiVersion.split('/')[0] !== apiGroup) {
    return { ignored: `${excerpt(apiVersion)} ${kind}` }
  }
  if (!isObject(metadata)) return problem('metadata', metadata, 'a mapping with a name')
  const { name, namespace = 'default' } = metadata
  if (!isSubdomain(name)) return problem('metadata.name', name, subdomainRule)
  if (!isLabel(namespace)) return problem('metadata.namespace', namespace, labelRule)
  // None of the three parts contains a slash, so different resources have different uids.
  const uid = uuid5(tollwayNamespace, `${kind}/${namespace}/${name}`)
  const { spec, data, stringData } = value
  return {
    apiVersion,
    kind,
    namespace,
    name,
    uid,
    ...readAnnotations(metadata['annotations']),
    spec: isSecret ? { data, stringData } : spec,
    origin,
  }
}

const isReferenceConfiguration =
  'is a configuration file of envoyproxy/ratelimit, not a resource: make one with tollway convert FILE, or ' +
  'check such files with tollway config-check --config-dir DIR'
const labelRule = 'a name of at most 63 lower case letters, digits and - (RFC 1123 label)'
const subdomainRule = 'a name of at most 253 lower case letters, digits, - and . (RFC 1123 subdomain)'

function isLabel(value: unknown): value is string {
  return typeof value === 'string' && value.length <= 63 && /^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/.test(value)
}

function isSubdomain(value: unknown): value is string {
  if (typeof value !== 'string' || value.length > 253) return false
  return value.split('.').every(part => /^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/.test(part))
}

function describeFoundValue(value: unknown): string {
  if (value === undefined || value === null) return 'nothing'
  if (Array.isArray(value)) return 'a list'
  if (typeof value === 'object') return 'a mapping'
  return typeof value === 'string' ? `"${excerpt(value)}"` : String(value)
}

function excerpt(text: string): string {
  return text.length <= 60 ? text : `${text.slice(0, 60)}…`
}

/** Returns the reason and the place, without js-yaml's excerpt of the text, which may contain a secret. */
function yamlMessage(error: unknown, line?: number): string {
  if (!(error instanceof YAMLException)) return `cannot be read as YAML: ${(error as Error).message}`
  const { mark, reason } = error
  if (mark !== undefined) return `line ${mark.line + 1}, column ${mark.column + 1}: ${reason}`
  return line === undefined ? reason : `line ${line}: ${reason}`
}

/** Returns the offset at which the text of an event starts; -1 for an event without text. */
function findTextStart(event: Event): number {
  if (event.type === EVENT_ID.SCALAR) return event.valueStart
  return event.type === EVENT_ID.MAPPING || event.type === EVENT_ID.SEQUENCE ? event.start : -1
}

/**
 * Returns a function that returns the line number, from 1, of an offset. The offsets must rise from call to
 * call.
 */
function countLines(text: string): (offset: number) => number {
  let line = 1
  let next = text.indexOf('\n')
  return offset => {
    for (; next !== -1 && next < offset; line++) next = text.indexOf('\n', next + 1)
    return line
  }
}
