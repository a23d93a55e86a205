import { spawnSync } from 'node:child_process'

/**
 * Returns the dynamic loader and the shared libraries that these programs need, directly or indirectly, as
 * sorted paths of this machine.
 *
 * @throws Error that names a missing library, or the program that ldd cannot read
 */
export function sharedLibraries(programs: readonly string[]): readonly string[] {
  const found = new Set<string>()
  for (const program of programs) {
    const { status, stdout, stderr, error } = spawnSync('ldd', [program], { encoding: 'utf8' })
    if (error !== undefined) throw new Error(`ldd cannot be run: ${error.message}`)
    if (/statically linked|not a dynamic executable/.test(stdout + stderr)) continue
    if (status !== 0) throw new Error(`ldd ${program}: ${stderr.trim()}`)
    for (const path of readLdd(program, stdout)) found.add(path)
  }
  return [...found].sort()
}

/**
 * Returns the paths in the output of ldd, which has lines such as `libc.so.6 => /lib/libc.so.6 (0x7f…)` and
 * `/lib64/ld-linux-x86-64.so.2 (0x7f…)`. The kernel's own library has no path and is left out.
 */
function readLdd(program: string, text: string): readonly string[] {
  return text.split('\n').flatMap(line => {
    if (line.includes('not found')) throw new Error(`${program} needs ${line.trim()}`)
    return /(?:=> |^\s*)(\/\S+) \(/.exec(line)?.[1] ?? []
  })
}
