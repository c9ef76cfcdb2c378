"""The task tandem mass spectrum → molecule: spectra, their files, a network on peaks, and the rivals."""
