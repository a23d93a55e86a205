import { useSignal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import { deadlines } from '../../../api/deadlines.ts'
import type { ApplyAnswer } from '../../../api/manifest-shapes.ts'
import type { WhatIfAnswer } from '../../../api/shapes.ts'
import { parseYamlDocument } from '../../../yaml.ts'
import { findFieldLine } from '../data/find-line.ts'
import { type ApiProblem, CallError, postJson } from './api.ts'
import { pause } from './event-stream.ts'

/** `line` is the line in the text, from 1; undefined if it is unknown. */
interface LocatedProblem extends ApiProblem {
  readonly line: number | undefined
}

/** The evaluation of a text. The replay of recorded calls can fail for a valid text. */
export interface Proposal {
  /** Whether the operator has accepted the current text. */
  readonly isValid: boolean
  /** The problems of the text. While a new text is evaluated, they are the problems of the text before. */
  readonly problems: readonly LocatedProblem[]
  readonly warnings: readonly LocatedProblem[]
  readonly replay: Replay
  readonly answer: WhatIfAnswer | undefined
}

type Replay =
  | { readonly state: 'none' | 'done' | 'cancelled' }
  | { readonly state: 'running'; readonly beganMs: number }
  | { readonly state: 'failed'; readonly error: unknown }

const nothing: Proposal = {
  isValid: false,
  problems: [],
  warnings: [],
  replay: { state: 'none' },
  answer: undefined,
}
/** How long after the last key a text is evaluated. */
const typingMs = 500
const busyMs = 1_000

export type WhatIfReplay = ReturnType<typeof useWhatIf>

/** Validates a text and replays recorded calls with it, 500 ms after the last key and on demand. */
export function useWhatIf(text: string) {
  const proposal = useSignal<Proposal>(nothing)
  const attempts = useSignal(0)
  const running = useRef(new AbortController())
  useEffect(() => {
    if (text.trim() === '') {
      proposal.value = nothing
      return
    }
    const typed = new AbortController()
    running.current = typed
    const before = proposal.value
    proposal.value = { ...before, isValid: false, replay: { state: 'running', beganMs: performance.now() } }
    void evaluate(text, typed.signal).then(
      result => {
        if (!typed.signal.aborted) proposal.value = result
      },
      (error: unknown) => {
        if (!typed.signal.aborted) proposal.value = { ...nothing, replay: { state: 'failed', error } }
      },
    )
    return () => typed.abort()
  }, [text, attempts.value])
  return {
    proposal: proposal.value,
    again() {
      attempts.value += 1
    },
    cancel() {
      running.current.abort()
      // The answer is dropped, because it may be to an earlier text.
      proposal.value = { ...proposal.value, answer: undefined, replay: { state: 'cancelled' } }
    },
  }
}

async function evaluate(text: string, signal: AbortSignal): Promise<Proposal> {
  await pause(typingMs, signal)
  signal.throwIfAborted()
  const read = parseYamlDocument(text)
  if ('message' in read) {
    const { message, line } = read
    return { ...nothing, problems: [{ field: 'YAML', message, line }] }
  }
  try {
    const answer = await replay(read.value, signal)
    const warnings = locate(text, answer.warnings)
    return { ...nothing, isValid: true, warnings, replay: { state: 'done' }, answer }
  } catch (error) {
    signal.throwIfAborted()
    const problems = problemsIn(error)
    if (problems.length > 0) return { ...nothing, problems: locate(text, problems) }
    const checked = await checkByDryRun(read.value, text, signal)
    return { ...nothing, ...checked, replay: { state: 'failed', error } }
  }
}

const locate = (text: string, problems: readonly ApiProblem[]): readonly LocatedProblem[] =>
  problems.map(problem => ({ ...problem, line: findFieldLine(text, problem.field) }))

const problemsIn = (error: unknown) =>
  error instanceof CallError && error.status === 400 ? error.problems : []

async function replay(resource: unknown, signal: AbortSignal): Promise<WhatIfAnswer> {
  for (;;) {
    try {
      return await postJson<WhatIfAnswer>('/whatif', resource, { signal, deadlineMs: deadlines.whatIf })
    } catch (error) {
      if (!(error instanceof CallError) || error.status !== 429) throw error
      // The operator runs as many replays as it allows.
      await pause(busyMs, signal)
      signal.throwIfAborted()
    }
  }
}

/** Validates a text by a dry run of an apply, when the replay has failed for another reason. */
async function checkByDryRun(
  resource: unknown,
  manifest: string,
  signal: AbortSignal,
): Promise<Pick<Proposal, 'isValid' | 'problems' | 'warnings'>> {
  try {
    const body = { resource, manifest, dryRun: true, force: true }
    const { warnings } = await postJson<ApplyAnswer>('/apply', body, { signal })
    return { isValid: true, problems: [], warnings: locate(manifest, warnings) }
  } catch (error) {
    // Conflicts are checked last, so that a text with a conflict is valid. After other errors, such as a
    // missing right, it is unknown.
    const isValid = error instanceof CallError && error.status === 409
    return { isValid, problems: locate(manifest, problemsIn(error)), warnings: [] }
  }
}
