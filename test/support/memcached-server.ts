import { type ChildProcess, spawn } from 'node:child_process'
import { connect } from 'node:net'
import { freePorts } from './free-ports.ts'
import { type ServerProcess, startServerProcess } from './server-process.ts'
import { waitFor } from './wait-for.ts'

/** A memcached on the loopback address and one port, without persistence. */
export interface MemcachedServer extends ServerProcess {
  readonly port: number
  /** `127.0.0.1:port`. */
  readonly address: string
  /** Sends lines of the text protocol over a separate connection, and returns the received lines. */
  command(...lines: string[]): Promise<string[]>
}

/** @param args additional arguments of memcached, such as `['-m', '1']` */
export async function startMemcached(args: readonly string[] = []): Promise<MemcachedServer> {
  const [port = 0] = await freePorts(1)
  // It runs as root only with this option.
  const user = process.getuid?.() === 0 ? ['-u', 'root'] : []
  const start = () => startProcess(port, ['-p', String(port), '-l', '127.0.0.1', '-U', '0', ...user, ...args])
  const server = await startServerProcess(start)
  return {
    port,
    address: `127.0.0.1:${port}`,
    get pid() {
      return server.pid
    },
    kill: server.kill,
    restart: server.restart,
    stop: server.stop,
    command: (...lines) => runCommand(port, lines),
  }
}

async function startProcess(port: number, args: readonly string[]): Promise<ChildProcess> {
  const child = spawn('memcached', args, { stdio: ['ignore', 'ignore', 'inherit'] })
  try {
    await waitFor('memcached to accept connections', () => {
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
