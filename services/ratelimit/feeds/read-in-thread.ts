import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import type { Problem } from '../rules/config.ts'
import type { FlatItem } from '../rules/flatten.ts'
import type { ValidateOptions } from '../rules/validate.ts'
import type { Reading } from './reading.ts'

/** What a thread is started with. */
export interface ThreadTask {
  readonly reading: Reading
  readonly options: ValidateOptions
}

/** What the thread tells first. */
export interface Verdict {
  readonly problems: readonly Problem[]
  readonly warnings: readonly Problem[]
}

/** To read a part takes this thread two or three milliseconds. */
export const itemsPerPart = 1_000

/**
 * As `readAndJudge`, in a thread of its own that ends with the last part, or with a verdict that refuses; so the
 * memory that it takes is not kept. A part is made when the one before it is taken: no more than two are in memory
 * besides what is compiled. All of them are to be asked for. Rejects when the thread fails, as for want of memory.
 */
export async function readInThread(
  reading: Reading,
  options: ValidateOptions,
): Promise<Verdict & { readonly parts: AsyncIterable<readonly FlatItem[]> }> {
  const task: ThreadTask = { reading, options }
  const thread = new Worker(new URL('./reading-thread.ts', import.meta.url), { workerData: task })
  const [verdict] = (await once(thread, 'message')) as [Verdict]
  return { ...verdict, parts: partsOf(thread) }
}

async function* partsOf(thread: Worker): AsyncGenerator<readonly FlatItem[], undefined> {
  const ask = () => {
    const answer = once(thread, 'message') as Promise<[string]>
    // Whoever takes no more parts does not hear that the thread failed, either.
    answer.catch(() => {})
    thread.postMessage('next')
    return answer
  }
  try {
    for (let next = ask(); ; ) {
      const [text] = await next
      const part = JSON.parse(text) as readonly FlatItem[]
      const isLast = part.length < itemsPerPart
      if (!isLast) next = ask()
      if (part.length > 0) yield part
      if (isLast) return undefined
    }
  } finally {
    await thread.terminate()
  }
}
