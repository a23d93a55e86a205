import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Clock } from '@tollway/chassis/clock.ts'
import type { Compiler } from '../rules/compile.ts'
import type { FlatItem } from '../rules/flatten.ts'

/** So long is compiled in one turn of the event loop; then decisions have it. */
const sliceMs = 4

/** Gives every item to the compiler, without ever keeping the event loop for long. */
export async function addInSlices(
  compiler: Pick<Compiler<unknown>, 'add'>,
  parts: Iterable<Iterable<FlatItem>> | AsyncIterable<Iterable<FlatItem>>,
  clock: Clock,
): Promise<void> {
  let beganMs = clock.monotonicMs()
  for await (const part of parts) {
    for (const item of part) {
      compiler.add(item)
      if (clock.monotonicMs() - beganMs < sliceMs) continue
      await nextTurn()
      beganMs = clock.monotonicMs()
    }
  }
}
