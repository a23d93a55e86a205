import type { CommandOutput } from '@tollway/chassis/command-line/command.ts'

/** Runs a command in this process; resolves with its exit code, its output and its errors. */
export async function runCaptured(run: (output: CommandOutput) => Promise<number>) {
  let [out, err] = ['', '']
  const code = await run({
    print(text) {
      out += text
    },
    printError(text) {
      err += text
    },
  })
  return { code, out, err }
}
