import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { build } from 'esbuild'

/** The sources of a page: the modules of a folder for browsers, which begin at `main.ts`. */
export const pageEntry = 'main.ts'

export interface PageBundle {
  /** Name and content of each file, sorted by name. */
  readonly files: readonly (readonly [string, Uint8Array])[]
  /** The bundled source files, as paths below the root. */
  readonly inputs: readonly string[]
}

const assets = ['icon.svg', 'style.css']
const plotStyles = 'node_modules/uplot/dist/uPlot.min.css'

/** Bundles the page in a folder for browsers: one script, its style sheets and its icon. */
export async function bundlePage(root: string, folder: string): Promise<PageBundle> {
  const made = await build({
    absWorkingDir: root,
    entryPoints: [join(folder, pageEntry)],
    outfile: join(folder, 'main.js'),
    write: false,
    bundle: true,
    minify: true,
    metafile: true,
    format: 'esm',
    platform: 'browser',
    target: 'es2024',
    legalComments: 'none',
    logLevel: 'silent',
  })
  if (made.warnings.length > 0) throw new Error(made.warnings.map(({ text }) => text).join('\n'))
  const [script] = made.outputFiles
  if (script === undefined) throw new Error(`${folder} has no bundle`)
  return {
    files: [
      ...assets.map((name): [string, Uint8Array] => [name, readFileSync(join(folder, name))]),
      ['main.js', script.contents],
      ['uplot.css', readFileSync(join(root, plotStyles))],
    ],
    inputs: Object.keys(made.metafile.inputs),
  }
}
