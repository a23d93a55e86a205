import { type ChildProcess, spawn } from 'node:child_process'
import { endWithFile } from './end-with-file.ts'
import { waitFor } from './wait-for.ts'

/** A program that a test started, with its output. */
export interface Program {
  readonly pid: number
  readonly process: ChildProcess
  /** Returns standard output and error so far. */
  output(): string
  /** Resolves when the output contains the text; fails with the whole output when the program ends before. */
  said(text: string | RegExp, deadlineMs?: number): Promise<void>
  /** Resolves with the exit code, or the signal that ended it, when the output is complete. */
  exited(): Promise<number | string>
  /**
   * Sends the signal, to its whole process group if it is detached, and resolves with the exit code or the
   * signal that ended it.
   */
  end(signal?: NodeJS.Signals): Promise<number | string>
}

/**
 * Starts a program with this process's environment, or with `env` only. The program shares this process's
 * compile cache in either case: stripping the types of a service again takes longer than most tests.
 */
export function startProgram(
  command: string,
  args: readonly string[],
  options: { readonly cwd?: string; readonly env?: NodeJS.ProcessEnv; readonly detached?: boolean } = {},
): Program {
  const { NODE_COMPILE_CACHE } = process.env
  const env = options.env && { ...(NODE_COMPILE_CACHE && { NODE_COMPILE_CACHE }), ...options.env }
  const child = spawn(command, [...args], { ...options, env, stdio: ['ignore', 'pipe', 'pipe'] })
  const send = (signal: NodeJS.Signals) => {
    if (options.detached && child.pid !== undefined) process.kill(-child.pid, signal)
    else child.kill(signal)
  }
  endWithFile(child, () => send('SIGKILL'))
  let said = ''
  const hear = (chunk: Buffer) => {
    said += chunk.toString()
  }
  child.stdout.on('data', hear)
  child.stderr.on('data', hear)
  child.on('error', error => hear(Buffer.from(`${error.message}\n`)))
  let isEnded = false
  // Not 'exit', after which the rest of the output is still to arrive.
  const closed = new Promise<void>(resolve => {
    child.once('close', () => {
      isEnded = true
      resolve()
    })
  })
  const exited = async () => {
    await closed
    return child.exitCode ?? child.signalCode ?? -1
  }
  return {
    pid: child.pid ?? -1,
    process: child,
    output: () => said,
    async said(text, deadlineMs) {
      const heard = () => (typeof text === 'string' ? said.includes(text) : text.test(said))
      try {
        await waitFor(`"${text}"`, () => heard() || isEnded, deadlineMs)
      } catch (error) {
        throw new Error(`${(error as Error).message}\nthe output was: ${said}`)
      }
      if (!heard()) throw new Error(`${command} ended without "${text}"; the output was: ${said}`)
    },
    exited,
    end(signal = 'SIGTERM') {
      if (!isEnded) send(signal)
      return exited()
    },
  }
}
