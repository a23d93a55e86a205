import { readFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { type BuildOptions, build, type OutputFile, type Plugin } from 'esbuild'

/** Programs as plain JavaScript that needs nothing but Node. */
export interface Bundle {
  /** By their names; all lie in one folder. */
  readonly files: ReadonlyMap<string, Uint8Array>
  /** The source files that went in, as paths below the root. */
  readonly inputs: readonly string[]
}

/** Packages of CommonJS ask for Node's own modules by `require`, which a module does not have. */
const requireOfNode =
  "import { createRequire as createRequireOfBundle } from 'node:module';" +
  'const require = createRequireOfBundle(import.meta.url);'

/** Programs that start others that start others, so deep at most. */
const maxRounds = 10

/**
 * Bundles a program with every other one that it starts: what they share is there once, and what is imported
 * when it is needed stays a file of its own. Names and lines are kept, so that a stack can be read; source
 * maps lie beside, for `--enable-source-maps`.
 *
 * @param root the repository
 * @param name of the file that is run: `tollway` becomes `tollway.mjs`
 * @param source of it, as a path below the root
 * @throws Error with every problem and warning.
 */
export async function bundle(root: string, name: string, source: string): Promise<Bundle> {
  const programs = new Map([[join(root, source), name]])
  await findPrograms(root, programs)
  const made = await build({
    ...common(root, programs),
    metafile: true,
    splitting: true,
    outExtension: { '.js': '.mjs' },
    banner: { js: requireOfNode },
    sourcemap: 'linked',
    sourcesContent: false,
    legalComments: 'none',
  })
  if (made.warnings.length > 0) throw new Error(made.warnings.map(({ text }) => text).join('\n'))
  return {
    files: new Map(made.outputFiles.map(file => [nameOf(file, root), file.contents])),
    inputs: Object.keys(made.metafile.inputs).sort(),
  }
}

/** Adds what the programs start, and what those start, and so on; only sources of ours start any. */
async function findPrograms(root: string, programs: Map<string, string>): Promise<void> {
  for (let round = 0; round < maxRounds; round++) {
    const before = programs.size
    const options = common(root, programs)
    await build({ ...options, plugins: [...options.plugins, withoutPackages] })
    if (programs.size === before) return
  }
  const names = [...programs.values()].join(', ')
  throw new Error(`programs start programs that start programs, more than ${maxRounds} deep: ${names}`)
}

const withoutPackages: Plugin = {
  name: 'without-packages',
  setup({ onResolve }) {
    onResolve({ filter: /^[@\w]/ }, ({ path }) =>
      path.startsWith('@tollway/') ? undefined : { external: true },
    )
  },
}

function common(root: string, programs: Map<string, string>) {
  return {
    absWorkingDir: root,
    // Source maps name the sources from here: in the image they are those of the repository, below /.
    outdir: join(root, 'app'),
    entryPoints: [...programs].map(([path, name]) => ({ in: path, out: name })),
    write: false,
    bundle: true,
    format: 'esm',
    platform: 'node',
    target: 'node24',
    logLevel: 'silent',
    define: { 'import.meta.main': 'false' },
    plugins: [programsBeside(root, programs)],
  } satisfies BuildOptions
}

const nameOf = ({ path }: OutputFile, root: string) => relative(join(root, 'app'), path)

const placeBeside = /new URL\('([^']+\.ts)', import\.meta\.url\)/g
const placeOfModule = /import\.meta\.(url|dirname|filename)/

/**
 * A source that starts another one, as a process or a thread, names it by its place beside itself. That one
 * becomes a program of the bundle, and is named there. Anything else that depends on where a source lies
 * would break in a bundle, and is refused.
 *
 * @param programs the names of the programs by their paths; those that are found are added
 */
function programsBeside(root: string, programs: Map<string, string>): Plugin {
  return {
    name: 'programs-beside',
    setup({ onLoad }) {
      onLoad({ filter: /\.ts$/ }, ({ path }) => {
        const source = readFileSync(path, 'utf8')
        if (!placeOfModule.test(source)) return undefined
        if (placeOfModule.test(source.replaceAll(placeBeside, ''))) {
          const allowed = "new URL('FILE.ts', import.meta.url), which becomes a program of the bundle"
          throw new Error(
            `${relative(root, path)} depends on where it lies; only this is allowed: ${allowed}`,
          )
        }
        const contents = source.replaceAll(placeBeside, (_, place: string) => {
          const other = join(path, '..', place)
          const name = programs.get(other) ?? relative(root, other).replace(/\.ts$/, '').replaceAll('/', '-')
          programs.set(other, name)
          return `new URL('./${name}.mjs', import.meta.url)`
        })
        return { contents, loader: 'ts' }
      })
    },
  }
}
