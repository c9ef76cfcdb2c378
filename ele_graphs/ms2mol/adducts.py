"""The ions that a molecule M is measured as, by their usual names, and the mass of M that follows from an m/z."""

from __future__ import annotations

from dataclasses import dataclass

ELECTRON = 0.000548579909
HYDROGEN, PROTON = 1.00782503223, 1.00782503223 - ELECTRON
WATER, FORMIC, ACETIC, AMMONIA = 18.010564684, 46.005479304, 60.021129366, 17.026549101
SODIUM, POTASSIUM, CHLORIDE, BROMIDE = 22.989769282, 38.9637064864, 34.968852682, 78.9183376


@dataclass(frozen=True)
class Adduct:
    """An ion of `molecules` molecules with `charge` elementary charges, `shift` Da heavier than these."""

    name: str
    shift: float
    charge: int = 1
    molecules: int = 1

    def neutral_mass(self, mz: float) -> float:
        """The monoisotopic mass of the molecule whose ion has this m/z."""
        return (mz * abs(self.charge) - self.shift) / self.molecules

    def mz(self, mass: float) -> float:
        """The m/z of the ion of a molecule of this monoisotopic mass."""
        return (self.molecules * mass + self.shift) / abs(self.charge)


KNOWN = (
    Adduct("[M+H]+", PROTON),
    Adduct("[M-H]-", -PROTON, -1),
    Adduct("[M+Na]+", SODIUM - ELECTRON),
    Adduct("[M+K]+", POTASSIUM - ELECTRON),
    Adduct("[M+NH4]+", AMMONIA + PROTON),
    Adduct("[M-H2O+H]+", PROTON - WATER),
    Adduct("[M-2H2O+H]+", PROTON - 2 * WATER),
    Adduct("[M-H2O-H]-", -PROTON - WATER, -1),
    Adduct("[M+Cl]-", CHLORIDE + ELECTRON, -1),
    Adduct("[M+Br]-", BROMIDE + ELECTRON, -1),
    Adduct("[M+HCOO]-", FORMIC - PROTON, -1),
    Adduct("[M+CH3COO]-", ACETIC - PROTON, -1),
    Adduct("[M]+", -ELECTRON),
    Adduct("[M]-", ELECTRON, -1),
    Adduct("[M+2H]2+", 2 * PROTON, 2),
    Adduct("[M-2H]2-", -2 * PROTON, -2),
    Adduct("[2M+H]+", PROTON, 1, 2),
    Adduct("[2M-H]-", -PROTON, -1, 2),
)
ALIASES = {
    "[M+H-H2O]+": "[M-H2O+H]+",
    "[M-H-H2O]-": "[M-H2O-H]-",
    "[M+H-2H2O]+": "[M-2H2O+H]+",
    "[M+CHO2]-": "[M+HCOO]-",
    "[M+FA-H]-": "[M+HCOO]-",
    "[M+C2H3O2]-": "[M+CH3COO]-",
    "[M+CH3CO2]-": "[M+CH3COO]-",
    "[M+]+": "[M]+",
    "[M]+*": "[M]+",
    "[M]+.": "[M]+",
    "[M+2H]++": "[M+2H]2+",
    "[M-2H]--": "[M-2H]2-",
}
BY_NAME = {adduct.name: adduct for adduct in KNOWN}
PLACES = {adduct.name: place for place, adduct in enumerate(KNOWN)}


def find(name: str) -> Adduct | None:
    """The adduct of a name as files write it, such as `[M+H]+`, `M+H` or `[M + H]+`; None if it is not known."""
    plain = "".join(name.split())
    if plain and not plain.startswith("["):
        plain = next((known for known in BY_NAME if known[1:].split("]")[0] == plain.rstrip("+-")), plain)
    return BY_NAME.get(ALIASES.get(plain, plain))
