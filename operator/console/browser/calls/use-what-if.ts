import { useSignal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import { deadlines } from '../../../api/deadlines.ts'
import type { ApplyAnswer } from '../../../api/manifest-shapes.ts'
import type { WhatIfAnswer } from '../../../api/shapes.ts'
import { parseYamlDocument } from '../../../yaml.ts'
import { findFieldLine } from '../data/find-line.ts'
import { ApiError, type ApiProblem, postJson } from './api.ts'
import { pause } from './event-stream.ts'

/** A problem or a warning, with its line in the text, from 1, if that is known. */
interface LocatedProblem extends ApiProblem {
  readonly line: number | undefined
}

/** A text of the editor: its mistakes, and the replay of recorded calls, which may fail for a valid text. */
export interface Proposal {
  /** Whether the operator has found the present text valid. */
  readonly isValid: boolean
  /** Those of the last checked text while the present one is checked. */
  readonly problems: readonly LocatedProblem[]
  /** Settings that are valid and probably mistakes. */
  readonly warnings: readonly LocatedProblem[]
  readonly replay: Replay
  /** The answer of the last replay, also while another one runs. */
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
const typingMs = 500
const busyMs = 1_000

export interface WhatIf {
  readonly proposal: Proposal
  /** Replays the calls that are recorded by now. */
  again(): void
  /** Ends the replay that runs. */
  cancel(): void
}

/** Validates a text and replays recorded calls with it, a while after the last key, and again on demand. */
export function useWhatIf(text: string): WhatIf {
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
      // The answer before was about another text.
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
  error instanceof ApiError && error.status === 400 ? error.problems : []

async function replay(resource: unknown, signal: AbortSignal): Promise<WhatIfAnswer> {
  for (;;) {
    try {
      return await postJson<WhatIfAnswer>('/whatif', resource, { signal, deadlineMs: deadlines.whatIf })
    } catch (error) {
      if (!(error instanceof ApiError) || error.status !== 429) throw error
      // The operator replays two proposals at a time.
      await pause(busyMs, signal)
      signal.throwIfAborted()
    }
  }
}

/** After a failed replay, an apply that writes nothing finds the mistakes. */
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
    // A conflict is found after the mistakes. Without the right to apply, nothing is known.
    const isValid = error instanceof ApiError && error.status === 409
    return { isValid, problems: locate(manifest, problemsIn(error)), warnings: [] }
  }
}
