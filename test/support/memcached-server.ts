import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { connect } from 'node:net'
import { freePorts } from './free-ports.ts'
import { waitFor } from './wait-for.ts'

/** A memcached of its own on the loopback address; it keeps nothing beyond its process. */
export interface MemcachedServer {
  readonly port: number
  /** `127.0.0.1:port`. */
  readonly address: string
  /** Sends a signal; SIGKILL waits until the process is gone. */
  kill(signal: 'SIGKILL' | 'SIGSTOP' | 'SIGCONT'): Promise<void>
  /** Starts it anew after a SIGKILL, on the same port, and waits until it takes connections. */
  restart(): Promise<void>
  /** Ends the process, stopped or not. */
  stop(): Promise<void>
  /** Sends lines of the text protocol over a connection of its own, and answers the lines that came. */
  command(...lines: string[]): Promise<string[]>
}

/** @param args more arguments of memcached, for example `['-m', '1']` */
export async function startMemcached(args: readonly string[] = []): Promise<MemcachedServer> {
  const [port = 0] = await freePorts(1)
  // It does not run as root unless it is told to.
  const user = process.getuid?.() === 0 ? ['-u', 'root'] : []
  const start = () => startProcess(port, ['-p', String(port), '-l', '127.0.0.1', '-U', '0', ...user, ...args])
  let child = await start()
  // A test run that is cut short must not leave servers behind.
  const killAtExit = () => child.kill('SIGKILL')
  process.once('exit', killAtExit)

  async function end(): Promise<void> {
    if (child.exitCode !== null || child.signalCode !== null) return
    const exited = once(child, 'exit')
    child.kill('SIGKILL')
    await exited
  }

  return {
    port,
    address: `127.0.0.1:${port}`,
    async kill(signal) {
      if (signal === 'SIGKILL') await end()
      else child.kill(signal)
    },
    async restart() {
      await end()
      child = await start()
    },
    async stop() {
      process.removeListener('exit', killAtExit)
      await end()
    },
    command: (...lines) => runCommand(port, lines),
  }
}

async function startProcess(port: number, args: readonly string[]): Promise<ChildProcess> {
  const child = spawn('memcached', args, { stdio: ['ignore', 'ignore', 'inherit'] })
  try {
    await waitFor('memcached to take connections', () => {
      if (child.exitCode !== null) throw new Error(`memcached ended with exit code ${child.exitCode}`)
      return takesConnections(port)
    })
  } catch (error) {
    child.kill('SIGKILL')
    throw error
  }
  return child
}

function takesConnections(port: number): Promise<boolean> {
  return new Promise(resolve => {
    const socket = connect(port, '127.0.0.1')
    socket.once('connect', () => resolve(true))
    socket.once('error', () => resolve(false))
    socket.once('close', () => resolve(false))
    socket.once('connect', () => socket.destroy())
  })
}

async function runCommand(port: number, lines: readonly string[]): Promise<string[]> {
  const socket = connect(port, '127.0.0.1').setEncoding('utf8')
  socket.write([...lines, 'quit', ''].join('\r\n'))
  let text = ''
  for await (const chunk of socket) text += chunk
  return text.split('\r\n').slice(0, -1)
}
