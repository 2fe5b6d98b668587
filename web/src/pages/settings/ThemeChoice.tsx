import { chooseTheme, type Theme, useTheme } from '@/app/theme'
import { Card } from '@/parts/Card'

const THEMES: [Theme, string][] = [
  ['system', 'As the system prefers'],
  ['light', 'Light'],
  ['dark', 'Dark'],
]

/** Light, dark, or as the system prefers; kept in this browser. */
export function ThemeChoice() {
  const { chosen } = useTheme()
  return (
    <Card title="Theme">
      <fieldset className="themes">
        <legend className="quiet">How this dashboard looks in this browser.</legend>
        {THEMES.map(([theme, name]) => (
          <label key={theme}>
            <input type="radio" name="theme" checked={chosen === theme} onChange={() => chooseTheme(theme)} /> {name}
          </label>
        ))}
      </fieldset>
    </Card>
  )
}
