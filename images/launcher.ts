import { nodePath } from './node-layer.ts'

/**
 * The script that runs a program of an image, so that `kubectl exec` finds it by its name, too; there is no
 * shell in the image.
 *
 * The first process of a container is not ended by a signal that it does not handle, and loading a program
 * takes a part of a second in which it handles none: a pod that was deleted right then stayed for as long as
 * its grace lasted, and an operator held the lease. So the script ends it as long as the program does not do
 * so itself.
 *
 * @param module the program's, as an absolute path
 */
export function makeLauncher(module: string): string {
  return `#!${nodePath}
for (const [signal, code] of [['SIGTERM', 143], ['SIGINT', 130]]) {
  process.on(signal, () => process.listenerCount(signal) > 1 || process.exit(code))
}
import('${module}')
`
}
