import { signal, useSignal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import type { ApplyAnswer, ManifestAnswer } from '../../../api/manifest-shapes.ts'
import { fetchJson } from './api.ts'

/** A text of the editor. */
export interface Draft {
  readonly text: string
  /** The manifest that the text began with; undefined for a new resource. */
  readonly source: ManifestAnswer | undefined
}

export interface ResourceKey {
  readonly namespace: string
  readonly name: string
}

interface OpenDraft {
  /** Undefined until the manifest has been read. */
  readonly draft: Draft | undefined
  /** Why the manifest could not be read. */
  readonly problem: unknown
  edit(text: string): void
  /** Replaces the text by the manifest as it is now. */
  readAgain(): void
  /** Records that the text has been applied. */
  applied(text: string, answer: ApplyAnswer): void
}

/** The texts stay while other pages are shown: one for each resource, those of the last edits. */
const drafts = signal<ReadonlyMap<string, Draft>>(new Map())
const maxDrafts = 20

function storeDraft(key: string, draft: Draft): void {
  const others = [...drafts.value].filter(([other]) => other !== key)
  drafts.value = new Map([...others.slice(1 - maxDrafts), [key, draft]])
}

/**
 * Opens the draft of one resource, which begins with its manifest, or that of a new one. A component that
 * shows another resource is another component.
 *
 * @param resource undefined for a new resource, which begins with the template
 */
export function useDraft(resource: ResourceKey | undefined, template: string): OpenDraft {
  const key = resource === undefined ? '' : `${resource.namespace}/${resource.name}`
  const problem = useSignal<unknown>(undefined)
  const attempts = useSignal(0)
  const kept = drafts.value.get(key)
  const draft = resource === undefined ? (kept ?? { text: template, source: undefined }) : kept

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
    edit(text) {
      storeDraft(key, { text, source: draft?.source })
    },
    readAgain() {
      attempts.value += 1
    },
    applied(text, { namespace, name, origin, version }) {
      storeDraft(key, {
        text,
        source: { kind: 'RateLimitConfig', namespace, name, origin, version, manifest: text },
      })
    },
  }
}

const readManifest = ({ namespace, name }: ResourceKey, signal: AbortSignal) =>
  fetchJson<ManifestAnswer>('/manifest', { parameters: { kind: 'RateLimitConfig', namespace, name }, signal })
