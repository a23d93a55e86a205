import { parentPort, workerData } from 'node:worker_threads'
import { type FlatItem, flatten } from '../rules/flatten.ts'
import { itemsPerPart, type ThreadTask, type Verdict } from './read-in-thread.ts'
import { readAndJudge } from './reading.ts'

/**
 * The thread of `readInThread`: tells the verdict, then the configurations part by part, each when it is asked
 * for. It ends when all is told, or there is nothing to be told.
 */
const { reading, options } = workerData as ThreadTask
const { configs, problems, warnings } = await readAndJudge(reading, options)
const items = flatten(problems.length > 0 ? [] : configs)
parentPort?.on('message', () => tell(nextPart()))
tell({ problems, warnings } satisfies Verdict)
if (problems.length > 0) parentPort?.close()

/** Text of JSON, of which the other side makes objects in half the time that it takes for a clone. */
function nextPart(): string {
  const part: FlatItem[] = []
  while (part.length < itemsPerPart) {
    const { value } = items.next()
    if (value === undefined) break
    part.push(value)
  }
  return JSON.stringify(part)
}

function tell(message: Verdict | string): void {
  parentPort?.postMessage(message)
}
