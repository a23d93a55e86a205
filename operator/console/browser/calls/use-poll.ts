import { useSignal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import { type CallError, type CallInit, fetchJson, type QueryParameters, toUrl } from './api.ts'
import { pause } from './event-stream.ts'

export interface Polled<Answer> {
  readonly answer: Answer | undefined
  /**
   * The error of the last call; undefined if it succeeded. After an error, `answer` is the answer of an
   * earlier call.
   */
  readonly problem: CallError | undefined
}

/** The factor by which pauses are longer in a hidden tab. */
const hiddenFactor = 5

/**
 * Repeats a call while the component is shown. The pause is `everyMs`, or the duration of the call if it was
 * longer, and longer in a hidden tab.
 *
 * @param read makes the call; the same function in each render
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
          polled.value = { answer: last, problem: error as CallError, key }
        }
        const pauseMs = document.hidden ? everyMs * hiddenFactor : everyMs
        await pause(Math.max(pauseMs, performance.now() - begin), closed.signal)
      }
    }
    void poll()
    return () => closed.abort()
  }, [key, everyMs])
  return polled.value.key === key ? polled.value : { answer: undefined, problem: undefined }
}
