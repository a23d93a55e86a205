import { execFileSync } from 'node:child_process'
import { chmodSync, copyFileSync, cpSync, mkdirSync, readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { root } from '../../support/tollway.ts'
import { builtTests, moduleCopy, referenceFolder } from './paths.ts'

/**
 * Compiles the reference's integration tests, with `runner.go` instead of its runner. They are compiled in a
 * copy of its module in `out/`, since Go allows no overlay over its module cache.
 *
 *     node test/conformance/reference-integration/build.ts
 */
rmSync(moduleCopy, { recursive: true, force: true })
mkdirSync(join(root, 'out/bin'), { recursive: true })
cpSync(referenceFolder(), moduleCopy, { recursive: true })
makeWritable(moduleCopy)
const runner = join(root, 'test/conformance/reference-integration/runner.go')
copyFileSync(runner, join(moduleCopy, 'src/service_cmd/runner/runner.go'))
// The flags of the other Go programs of the tests, so that the dependencies are compiled once.
const flags = ['-c', '-trimpath', '-vet=off', '-tags=integration']
const args = ['test', ...flags, '-o', builtTests, './test/integration']
execFileSync('go', args, { cwd: moduleCopy, stdio: 'inherit' })

/** Go's cache is read-only, and so is a copy of it. */
function makeWritable(folder: string): void {
  chmodSync(folder, 0o755)
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name)
    if (entry.isDirectory()) makeWritable(path)
    else chmodSync(path, 0o644)
  }
}
