import { signal, useSignal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import type { ApplyAnswer, ManifestAnswer } from '../../../api/manifest-shapes.ts'
import { fetchJson } from './api.ts'

export interface Draft {
  readonly text: string
  /** The manifest with which the draft began; undefined for a new resource. */
  readonly source: ManifestAnswer | undefined
}

export interface ResourceKey {
  readonly namespace: string
  readonly name: string
}

/** The drafts that were edited last, one for each resource. They are kept while other pages are shown. */
const drafts = signal<ReadonlyMap<string, Draft>>(new Map())
const maxDrafts = 20

function storeDraft(key: string, draft: Draft): void {
  const others = [...drafts.value].filter(([other]) => other !== key)
  drafts.value = new Map([...others.slice(1 - maxDrafts), [key, draft]])
}

/**
 * Returns the draft of a resource. A draft begins with the manifest of the resource, or with `template` if
 * the resource is new. `draft` is undefined until the manifest is read; `problem` is the error of reading it.
 * A component must not pass another resource later.
 *
 * @param resource undefined for a new resource
 */
export function useDraft(resource: ResourceKey | undefined, template: string) {
  const key = resource === undefined ? '' : `${resource.namespace}/${resource.name}`
  const problem = useSignal<unknown>(undefined)
  const attempts = useSignal(0)
  const stored = drafts.value.get(key)
  const draft: Draft | undefined =
    resource === undefined ? (stored ?? { text: template, source: undefined }) : stored

  useEffect(() => {
    if (resource === undefined || (attempts.value === 0 && drafts.value.has(key))) return
    const closed = new AbortController()
    problem.value = undefined
    readManifest(resource, closed.signal).then(
      source => storeDraft(key, { text: source.manifest, source }),
      (error: unknown) => {
        if (!closed.signal.aborted) problem.value = error
      },
    )
    return () => closed.abort()
  }, [attempts.value])

  return {
    draft,
    problem: problem.value,
    edit(text: string) {
      storeDraft(key, { text, source: draft?.source })
    },
    /** Replaces the draft with the current manifest, which is read again. */
    readAgain() {
      attempts.value += 1
    },
    markApplied(text: string, { namespace, name, origin, version }: ApplyAnswer) {
      storeDraft(key, {
        text,
        source: { kind: 'RateLimitConfig', namespace, name, origin, version, manifest: text },
      })
    },
  }
}

const readManifest = ({ namespace, name }: ResourceKey, signal: AbortSignal) =>
  fetchJson<ManifestAnswer>('/manifest', { parameters: { kind: 'RateLimitConfig', namespace, name }, signal })
