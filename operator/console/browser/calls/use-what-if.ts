import { useSignal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import type { WhatIfAnswer } from '../../../api/shapes.ts'
import { readYaml } from '../data/read-yaml.ts'
import { CallError, type Problem, post } from './api.ts'
import { pause } from './event-stream.ts'

export interface Proposal {
  /** `asking` until the answer of the present text is there. */
  readonly state: 'empty' | 'asking' | 'wrong' | 'answered'
  readonly answer: WhatIfAnswer | undefined
  readonly problems: readonly Problem[]
  /** The line of a mistake in the YAML. */
  readonly line: number | undefined
  /** Another error, such as a missing right. */
  readonly error: unknown
}

const nothing: Proposal = {
  state: 'empty',
  answer: undefined,
  problems: [],
  line: undefined,
  error: undefined,
}
const typingMs = 500
const busyMs = 1_000

/** Validates a text and replays recorded calls with it, a while after the last key, and again on demand. */
export function useWhatIf(text: string): { readonly proposal: Proposal; again(): void } {
  const proposal = useSignal<Proposal>(nothing)
  const attempts = useSignal(0)
  useEffect(() => {
    if (text.trim() === '') {
      proposal.value = nothing
      return
    }
    const typed = new AbortController()
    proposal.value = { ...proposal.value, state: 'asking' }
    void ask(text, typed.signal).then(
      result => {
        if (!typed.signal.aborted) proposal.value = result
      },
      (error: unknown) => {
        if (!typed.signal.aborted) proposal.value = { ...nothing, state: 'wrong', error }
      },
    )
    return () => typed.abort()
  }, [text, attempts.value])
  return {
    proposal: proposal.value,
    again() {
      attempts.value += 1
    },
  }
}

async function ask(text: string, signal: AbortSignal): Promise<Proposal> {
  await pause(typingMs, signal)
  signal.throwIfAborted()
  const read = readYaml(text)
  if ('message' in read) {
    const { message, line } = read
    const field = line === undefined ? 'YAML' : `line ${line}`
    return { ...nothing, state: 'wrong', line, problems: [{ field, message }] }
  }
  for (;;) {
    try {
      return {
        ...nothing,
        state: 'answered',
        answer: await post<WhatIfAnswer>('/whatif', read.value, signal),
      }
    } catch (error) {
      if (!(error instanceof CallError)) throw error
      if (error.status === 400 && error.problems.length > 0)
        return { ...nothing, state: 'wrong', problems: error.problems }
      if (error.status !== 429) throw error
      // The operator replays two proposals at a time.
      await pause(busyMs, signal)
      signal.throwIfAborted()
    }
  }
}
