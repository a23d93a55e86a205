import { useSignal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import { type ApiError, type CallInit, fetchJson, type QueryParameters, toUrl } from './api.ts'
import { pause } from './event-stream.ts'

export interface Polled<Answer> {
  readonly answer: Answer | undefined
  /** Why the last call failed. The last answer stays. */
  readonly problem: ApiError | undefined
}

const hiddenFactor = 5

/**
 * Repeats a call while the component is shown, with pauses of `everyMs`; longer ones in a hidden tab, and as
 * long as the answer took.
 *
 * @param read makes the call, or several of them; the same function each time
 */
export function usePoll<Answer>(
  path: string,
  parameters: QueryParameters,
  everyMs: number,
  read: (path: string, init: CallInit) => Promise<Answer> = fetchJson,
): Polled<Answer> {
  const polled = useSignal<Polled<Answer> & { readonly key?: string }>({
    answer: undefined,
    problem: undefined,
  })
  const key = toUrl(path, parameters)
  useEffect(() => {
    const closed = new AbortController()
    const poll = async () => {
      while (!closed.signal.aborted) {
        const begin = performance.now()
        try {
          const answer = await read(path, { parameters, signal: closed.signal })
          if (!closed.signal.aborted) polled.value = { answer, problem: undefined, key }
        } catch (error) {
          if (closed.signal.aborted) return
          const last = polled.value.key === key ? polled.value.answer : undefined
          polled.value = { answer: last, problem: error as ApiError, key }
        }
        const patientMs = document.hidden ? everyMs * hiddenFactor : everyMs
        await pause(Math.max(patientMs, performance.now() - begin), closed.signal)
      }
    }
    void poll()
    return () => closed.abort()
  }, [key, everyMs])
  return polled.value.key === key ? polled.value : { answer: undefined, problem: undefined }
}
