import type { Clock } from '@tollway/chassis/clock.ts'
import type { Log } from '@tollway/chassis/log/log.ts'
import { describeError } from './describe-error.ts'

/** Does a part of the due work, and resolves with whether there is more to do now. */
export type Task = () => Promise<boolean>

/** Returns a task that runs `task` again only `intervalMs` after `task` had nothing more to do. */
export function every(intervalMs: number, { monotonicMs }: Pick<Clock, 'monotonicMs'>, task: Task): Task {
  let nextMs = 0
  return async () => {
    const startMs = monotonicMs()
    if (startMs < nextMs) return false
    const hasMore = await task()
    if (!hasMore) nextMs = startMs + intervalMs
    return hasMore
  }
}

/**
 * Runs each task now and again after each `intervalMs`, and again at once while the task has more to do. All
 * processes run the tasks; locks in the database prevent conflicts.
 *
 * @param tasks the tasks, by name in the log
 */
export function startBackground(tasks: Readonly<Record<string, Task>>, intervalMs: number, log: Log) {
  const running = Object.entries(tasks).map(([name, task]) => repeat(name, task, intervalMs, log))
  return {
    /** Starts no more tasks, and waits for the running ones. */
    async stop() {
      await Promise.all(running.map(stop => stop()))
    },
  }
}

function repeat(name: string, task: Task, intervalMs: number, log: Log): () => Promise<void> {
  let stopped = false
  let timer: NodeJS.Timeout | undefined
  let current = Promise.resolve()

  async function run(): Promise<void> {
    try {
      while (!stopped && (await task()));
    } catch (error) {
      log.warn('run background task failed', { task: name, error: describeError(error) })
    }
    if (!stopped) timer = setTimeout(begin, intervalMs)
  }

  function begin(): void {
    current = run()
  }

  begin()
  return () => {
    stopped = true
    clearTimeout(timer)
    return current
  }
}
