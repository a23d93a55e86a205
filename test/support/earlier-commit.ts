import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync, symlinkSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { root } from './tollway.ts'

const git = (...args: string[]) => execFileSync('git', args, { cwd: root, maxBuffer: 1 << 28, stdio: 'pipe' })

/**
 * Returns the reason to skip tests with that commit; false when this checkout has it.
 *
 * @throws Error when it is missing and REQUIRE_SERVERS=1 forbids skipping
 */
export function missingHistory(commit: string): string | false {
  try {
    git('cat-file', '-e', `${commit}^{commit}`)
    return false
  } catch {
    const short = commit.slice(0, 12)
    const reason = `this checkout has no commit ${short}: fetch it by \`git fetch --unshallow\``
    if (process.env['REQUIRE_SERVERS'] === '1') throw new Error(`${reason}, and REQUIRE_SERVERS=1`)
    process.stderr.write(`SKIPPED: ${reason}\n`)
    return reason
  }
}

/** The folder of that commit: the same in every run, where what Node compiled of it before is found again. */
export function checkoutOf(commit: string): string {
  return join(root, 'out/previous-version', commit)
}

/** Creates the folder, unless it exists. */
export function checkOut(commit: string): void {
  const folder = checkoutOf(commit)
  if (existsSync(folder)) return
  mkdirSync(dirname(folder), { recursive: true })
  const made = mkdtempSync(`${folder}-`)
  execFileSync('tar', ['-x', '-C', made], { input: git('archive', commit) })
  linkModules(made)
  // Another run may have been faster.
  if (existsSync(folder)) rmSync(made, { recursive: true })
  else renameSync(made, folder)
}

/** The packages of third parties are the current ones; its own are its own. */
function linkModules(made: string): void {
  const present = join(root, 'node_modules')
  mkdirSync(join(made, 'node_modules/@tollway'), { recursive: true })
  for (const name of readdirSync(present)) {
    if (name !== '@tollway' && !name.startsWith('.'))
      symlinkSync(join(present, name), join(made, 'node_modules', name))
  }
  const own = { crds: 'crds', proto: 'proto', operator: 'operator' }
  const services = Object.fromEntries(
    readdirSync(join(made, 'services')).map(name => [name, `services/${name}`]),
  )
  for (const [name, folder] of Object.entries({ ...own, ...services })) {
    symlinkSync(join('../..', folder), join(made, 'node_modules/@tollway', name))
  }
}
