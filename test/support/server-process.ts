import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync } from 'node:fs'
import { endWithFile } from './end-with-file.ts'
import { waitFor } from './wait-for.ts'

/** The process of a server that a test may stop, kill and restart. */
export interface ServerProcess {
  /** The process that runs now. */
  readonly pid: number
  /**
   * Sends a signal; waits until the process has ended after SIGKILL, and until it is stopped after SIGSTOP.
   */
  kill(signal: 'SIGKILL' | 'SIGSTOP' | 'SIGCONT'): Promise<void>
  /** Restarts it, after a SIGKILL if it still runs, and waits until it serves. */
  restart(): Promise<void>
  /** Ends the process, stopped or not. */
  stop(): Promise<void>
}

/** @param start resolves when the server serves; starts the same server at each call */
export async function startServerProcess(start: () => Promise<ChildProcess>): Promise<ServerProcess> {
  let child = await startOnce()

  async function startOnce(): Promise<ChildProcess> {
    const started = await start()
    endWithFile(started)
    return started
  }

  async function end(): Promise<void> {
    if (child.exitCode !== null || child.signalCode !== null) return
    const exited = once(child, 'exit')
    child.kill('SIGKILL')
    await exited
  }

  return {
    get pid() {
      return child.pid ?? 0
    },
    async kill(signal) {
      if (signal === 'SIGKILL') return end()
      child.kill(signal)
      if (signal === 'SIGSTOP') await waitFor('the process to stop', () => isStopped(child.pid ?? 0))
    },
    async restart() {
      await end()
      child = await startOnce()
    },
    stop: end,
  }
}

/** Checks every thread: a running one could answer a request. */
function isStopped(pid: number): boolean {
  const threads = readdirSync(`/proc/${pid}/task`)
  return threads.every(thread => /\) T /.test(readFileSync(`/proc/${pid}/task/${thread}/stat`, 'utf8')))
}
