import { isObject } from '@tollway/chassis/is-object.ts'
import {
  hashTokens,
  type NoEntry,
  noSecret,
  type RouteSecrets,
  readSigningSecrets,
  type SecretReference,
} from '../../kinds/animation-stream-route/route-secrets.ts'
import type { Source, SourcedResource } from '../../kinds/source.ts'

/**
 * Reads the Secrets in a folder by the rules of `kubectl apply`: `data` is base64, and `stringData` takes
 * precedence.
 */
export function folderSecrets(source: Pick<Source, 'list' | 'onChange'>): RouteSecrets {
  /**
   * Caches results by the resource object. A changed resource is a new object, so a stale result is never
   * found.
   */
  function createReader<Known>(readEntry: (entries: Entries, reference: SecretReference) => Known) {
    const known = new WeakMap<SourcedResource, Map<string, Known | NoEntry>>()
    return (reference: SecretReference): Known | NoEntry => {
      const resource = findSecret(source, reference.namespace, reference.secret)
      if (resource === undefined) return noSecret
      const ofResource = known.get(resource) ?? new Map<string, Known | NoEntry>()
      known.set(resource, ofResource)
      const before = ofResource.get(reference.key)
      if (before !== undefined) return before
      const entries = decodeEntries(resource.spec)
      const found = entries === undefined ? noEntries : readEntry(entries, reference)
      ofResource.set(reference.key, found)
      return found
    }
  }

  return {
    follow: async () => {},
    tokens: createReader(hashTokens),
    signing: createReader(readSigningSecrets),
    onChange: listener => source.onChange(listener),
  }
}

/**
 * Returns the entries of a Secret; undefined if it does not exist. Throws for a Secret that an API server
 * would reject.
 */
export function readFolderSecret(
  source: Pick<Source, 'list'>,
  namespace: string,
  name: string,
): Entries | undefined {
  const found = findSecret(source, namespace, name)
  if (found === undefined) return undefined
  const entries = decodeEntries(found.spec)
  if (entries === undefined) throw new Error(`the Secret ${namespace}/${name} ${noEntries.missing}`)
  return entries
}

function findSecret(source: Pick<Source, 'list'>, namespace: string, secret: string) {
  return source
    .list()
    .find(
      ({ kind, apiVersion, ...one }) =>
        kind === 'Secret' && apiVersion === 'v1' && one.namespace === namespace && one.name === secret,
    )
}

const noEntries = { missing: 'has data that is not base64, or entries that are not strings' }

type Entries = Readonly<Record<string, string>>

/** Returns undefined for entries that an API server would reject. */
function decodeEntries(spec: unknown): Entries | undefined {
  const { data, stringData } = spec as { readonly data?: unknown; readonly stringData?: unknown }
  const encoded = readTexts(data)
  const plain = readTexts(stringData)
  if (encoded === undefined || plain === undefined) return undefined
  const entries: [string, string][] = []
  for (const [name, text] of Object.entries(encoded)) {
    const decoded = fromBase64(text)
    if (decoded === undefined) return undefined
    entries.push([name, decoded])
  }
  return Object.fromEntries([...entries, ...Object.entries(plain)])
}

function readTexts(found: unknown): Entries | undefined {
  if (found === undefined || found === null) return {}
  return isTexts(found) ? found : undefined
}

function fromBase64(text: string): string | undefined {
  const compact = text.replace(/\s/g, '')
  if (!/^[A-Za-z0-9+/]*={0,2}$/.test(compact) || compact.length % 4 !== 0) return undefined
  return Buffer.from(compact, 'base64').toString('utf8')
}

export function isTexts(value: unknown): value is Entries {
  return isObject(value) && Object.values(value).every(text => typeof text === 'string')
}
