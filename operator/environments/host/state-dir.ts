/** The folder where an operator on this machine keeps its state, unless another is named. */
export const defaultStateDir = '.tollway'

/** The variable that names another one for every command. */
export const stateDirVariable = 'TOLLWAY_STATE_DIR'

/** The state folder without an option. */
export const readStateDir = (env: NodeJS.ProcessEnv): string => env[stateDirVariable] || defaultStateDir
